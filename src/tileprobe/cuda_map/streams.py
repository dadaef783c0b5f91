"""Streams and events of `cuda:0`. Work is done when a call returns: a stream has nothing to wait for, and an
event is a moment."""

from __future__ import annotations

import itertools
import threading
import time
from types import SimpleNamespace
from typing import Any

from tileprobe.cuda_map import graphs

_CUDA = 1  # c10::DeviceType
_ids = itertools.count(1)  # 0 is the default stream
_current = threading.local()


def current() -> int:
    """The number of this thread's stream."""
    return getattr(_current, "stream", 0)


def choose(stream_id: int) -> None:
    _current.stream = stream_id


def make(torch: Any) -> SimpleNamespace:
    """The classes `Stream`, `ExternalStream` and `Event`, for this torch."""

    class Stream(torch.Stream):
        """A stream by number; all work on it is over."""

        def __new__(cls, device: Any = None, priority: int = 0, **given: Any) -> Any:
            number = given.get("stream_id")
            number = next(_ids) if number is None else number
            return super().__new__(cls, stream_id=number, device_index=0, device_type=_CUDA)

        def __init__(self, device: Any = None, priority: int = 0, **given: Any) -> None:
            self.priority = priority

        @property
        def cuda_stream(self) -> int:
            return self.stream_id

        @property
        def _as_parameter_(self) -> Any:
            import ctypes

            return ctypes.c_void_p(self.cuda_stream)

        def __enter__(self) -> Any:
            self._before = current()
            choose(self.stream_id)
            return self

        def __exit__(self, *_: Any) -> None:
            choose(self._before)

        def wait_event(self, event: Any) -> None: ...
        def wait_stream(self, stream: Any) -> None: ...
        def synchronize(self) -> None: ...
        def query(self) -> bool:
            return True

        def record_event(self, event: Any = None) -> Any:
            event = Event() if event is None else event
            event.record(self)
            return event

        def is_capturing(self) -> bool:
            return graphs.now.recording is not None

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, 0

        def __eq__(self, other: Any) -> bool:
            return isinstance(other, torch.Stream) and other.stream_id == self.stream_id

        def __hash__(self) -> int:
            return hash((self.stream_id, _CUDA))

        def __repr__(self) -> str:
            return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"

    class ExternalStream(Stream):
        def __new__(cls, stream_ptr: int, device: Any = None, **given: Any) -> Any:
            return super().__new__(cls, stream_id=stream_ptr)

    class Event(torch.Event):
        """A moment, from the clock of this machine."""

        def __new__(cls, enable_timing: bool = False, *_: Any, **__: Any) -> Any:
            return super().__new__(cls, device=torch.device("cuda", 0), enable_timing=enable_timing)

        def __init__(self, enable_timing: bool = False, *_: Any, **__: Any) -> None:
            self._timed, self._ns = enable_timing, 0

        def record(self, stream: Any = None) -> None:
            self._ns = time.perf_counter_ns()

        def wait(self, stream: Any = None) -> None: ...
        def synchronize(self) -> None: ...
        def query(self) -> bool:
            return True

        def elapsed_time(self, end: Any) -> float:
            """Milliseconds. At least a nanosecond, as callers divide by it."""
            if not (self._timed and end._timed):
                raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
            if not (self._ns and end._ns):
                raise RuntimeError("Both events must be recorded before calculating elapsed time.")
            return max(end._ns - self._ns, 1) / 1e6

        @property
        def cuda_event(self) -> int:
            return id(self)

        def __repr__(self) -> str:
            return f"<torch.cuda.Event {self._ns} ns>"

    for kind in (Stream, ExternalStream, Event):
        kind.__module__, kind.__qualname__ = "torch.cuda", kind.__name__
    return SimpleNamespace(Stream=Stream, ExternalStream=ExternalStream, Event=Event)
