"""How often others took the processor is part of a trace."""

from types import SimpleNamespace

from tileprobe.session import crowd


def test_switches_are_counted_by_the_second_of_processor_time(monkeypatch):
    counts = iter([(100, 5.0), (400, 6.5), (700, 7.0)])
    monkeypatch.setattr(crowd, "_so_far", lambda: next(counts))
    one = crowd.Crowd()
    one.start()
    assert one.switched_per_s() == 200.0  # so far
    one.stop()
    assert one.switched_per_s() == 300.0
    assert one.switched_per_s() == 300.0  # it is over


def test_hardly_any_time_says_nothing(monkeypatch):
    counts = iter([(100, 5.0), (101, 5.001)])
    monkeypatch.setattr(crowd, "_so_far", lambda: next(counts))
    one = crowd.Crowd()
    one.start()
    one.stop()
    assert one.switched_per_s() is None


def test_switches_and_time_are_those_of_this_process(monkeypatch):
    usage = SimpleNamespace(ru_nivcsw=7, ru_utime=1.5, ru_stime=0.25, ru_nvcsw=99)
    asked = []
    fake = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: asked.append(who) or usage)
    monkeypatch.setattr(crowd, "resource", fake)
    assert crowd._so_far() == (7, 1.75)
    assert asked == [0]


def test_where_nothing_counts_switches_none_are_known(monkeypatch):
    monkeypatch.setattr(crowd, "resource", None)
    assert crowd._so_far() == (0, 0.0)
    one = crowd.Crowd()
    one.start()
    one._first = (-100, -1.0)  # as if time had passed
    assert one.switched_per_s() is None
