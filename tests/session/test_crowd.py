"""How often others took the processor is part of a trace."""

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
