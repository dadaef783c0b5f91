"""`tileprobe.profile` and `tileprobe.profiled`: a session and the views of its trace, for use from Python."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tileprobe.session.session import Session
from tileprobe.trace import Trace


class Profile(Session):
    """A session that shows what it found: `report()` in a terminal or a notebook, `to_json()` for programs."""

    def __enter__(self) -> Profile:
        super().__enter__()
        return self

    def report(self, file: Any = None, full: bool = False) -> None:
        """Prints the tools' findings, with the annotated source. `full` leaves nothing out."""
        from tileprobe.views.terminal import make_console, print_report

        print_report(self.trace, self.results(), make_console(file), full)

    def join(self, traces: Sequence[Trace], problems: Sequence[str] = ()) -> None:
        """Puts in what other processes recorded, and what is to be said of them."""
        for number, problem in enumerate(problems):
            self.problems[f" {number}"] = problem
        merged = Trace.merge(self.trace, *traces) if traces else self.trace
        for trace in traces:
            for name, count in trace.meta.get("kernels_seen", {}).items():
                self.seen[name] = self.seen.get(name, 0) + count
            self.problems |= trace.meta.get("problems", {})
        merged.meta |= {"kernels_seen": dict(self.seen), "problems": dict(self.problems)}
        if traces:
            merged.meta["processes"] = 1 + len(traces)
        self._trace = merged

    def to_json(self) -> dict[str, Any]:
        from tileprobe.views.json_report import trace_to_json

        return trace_to_json(self.trace, self.results())

    def _repr_html_(self) -> str:
        """A notebook shows the page in a frame, and the report as text where it shows no frames."""
        from tileprobe.views.notebook import trace_html, with_text
        from tileprobe.views.preformatted import report_html

        text = report_html(self.trace, self.results())
        return with_text(trace_html(self.trace), text) if self.trace.kernels else text


def profile(kernels: str | Sequence[str] = "*", **options: Any) -> Profile:
    """Profiles the kernels launched in a `with` block; see `Session` for the options.

    >>> with tileprobe.profile() as p:
    ...     kernel[grid](x, y, n)
    >>> p.report()
    """
    return Profile(kernels, **options)


def profiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Profiles every call of a function and prints the report; `function.profile` is the last session.

    >>> @tileprobe.profiled
    ... def step(x): ...
    """

    def decorate(wrapped: Callable[..., Any]) -> Callable[..., Any]:
        report = options.pop("report", True)

        @functools.wraps(wrapped)
        def call(*args: Any, **kwargs: Any) -> Any:
            session = Profile(**options)
            call.profile = session  # type: ignore[attr-defined]
            with session:
                result = wrapped(*args, **kwargs)
            if report:
                session.report()
            return result

        return call

    return decorate if function is None else decorate(function)
