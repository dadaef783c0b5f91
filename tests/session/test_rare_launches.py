"""Parts of a session as they come seldom: launches of others under way, kernels without records, no names."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from session_parts import kernel_of

from tileprobe.ir.layout import Body, Stamp, allocate
from tileprobe.ir.sampling import Sampling
from tileprobe.session import script
from tileprobe.session.arguments import in_words
from tileprobe.session.manager import Manager
from tileprobe.session.recorded import Recorded, Watch
from tileprobe.session.session import Session


@pytest.mark.parametrize(
    ("thread", "concerned", "waits"),
    [("other", True, True), ("other", False, False), ("mine", True, False), ("mine", False, False)],
)
def test_leaving_waits_for_launches_of_other_threads_that_the_session_sees(
    thread, concerned, waits, monkeypatch
):
    """Its own thread's are over when it leaves; those that it does not look at are none of its business."""
    manager, session, over = Manager(), Session(), []
    manager.sessions.append(session)
    number = threading.get_ident() + (thread == "other")
    manager.flights = [SimpleNamespace(thread=number, concerns=lambda other: concerned)]  # type: ignore[assignment]
    manager.idle = SimpleNamespace(wait_for=lambda done, seconds: over.append(done()))  # type: ignore[assignment]
    monkeypatch.setattr("tileprobe.session.hooks.remove", lambda: None)
    manager.leave(session)
    assert over == [not waits]


@pytest.mark.parametrize(("takes", "kept"), [("record", False), ("exact", True)])
def test_a_variant_without_places_is_run_where_the_target_needs_none(takes, kept, monkeypatch):
    manager, kernel = Manager(), kernel_of(takes=takes)
    variant = SimpleNamespace(layout=None)
    monkeypatch.setattr(manager, "_started", lambda *_: True)
    monkeypatch.setattr(manager, "_variant", lambda *_: variant)
    looking = SimpleNamespace(work=SimpleNamespace(compiled={}), dose=1, session=None)
    found = manager._compiled_for(kernel, [looking], looking)  # type: ignore[arg-type]
    assert (found.variant is variant) == kept


def test_records_of_while_loops_are_counted_with_the_others():
    layout = allocate([Stamp(0), Body(0, 4, (Stamp(1),), counted=False)], cursor_capacity=8)
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, layout.slots[0].place([])] = 100
    base = layout.streams[0].cursor_base
    words[0, base + 1], words[0, base + 3] = 200, 300
    run = Recorded((1,), layout=layout, sampling=Sampling(), words=words, used=np.arange(layout.block_words))
    assert run.kept() == 3


def test_a_launch_without_probes_has_no_dose():
    watch = Watch(kernel_of(), (1, 1, 1), lambda run: None)
    assert (watch.recorded.dose, watch.room) == (0, 0)  # and no room for exact intervals


def test_arguments_without_names_have_numbers():
    assert in_words(("key", 3, (8, 2), 5), ()) == "#0=3, #2=5; #1 8x2"
    assert in_words(("key", 3, (8, 2)), (("n", "i32"), ("x", "*fp32"))) == "n=3; x 8x2 f32"


def test_executors_whose_threads_somebody_holds_run_dry():
    """Python lets them at its end; `_rest` does the same, and the process goes on with new ones."""
    pool, began, done = ThreadPoolExecutor(1), threading.Event(), []
    pool.submit(began.wait, 10)
    pool.submit(done.append, 1)
    held = list(pool._threads)
    for thread in held:
        assert not thread.daemon
    began.set()
    script._rest()
    assert done == [1]
    assert not any(thread.is_alive() for thread in held)
    with ThreadPoolExecutor(1) as again:
        assert again.submit(int, 3).result() == 3
