"""What a kernel may say about itself: scopes, marks and values. All of it is free when profiling is off.

    import tileprobe.language as tp

    @triton.jit
    def kernel(...):
        with tp.scope("softmax"):
            ...
        tp.mark("first half done")
        tp.value("tile", k)

A scope is a range of source lines: it adds nothing to the kernel, and what belongs to it is decided from the
locations of operations after optimisation. Marks and values are instants; they are compiled into the probed
variant of a kernel alone.
"""

from __future__ import annotations

from typing import Any


class scope:
    """Names the lines of a `with` block, which then are a region of their own in every report."""

    __triton_builtin__ = True  # Triton lets kernels use this name when it is imported by itself

    def __init__(self, name: Any, _semantic: Any = None) -> None:
        self.name = getattr(name, "value", name)
        if not isinstance(self.name, str):
            raise TypeError(f"a scope needs a name that is written in the kernel, got {self.name!r}")

    def __enter__(self) -> None:
        """Nothing: the lines speak for themselves."""

    def __exit__(self, *_: Any) -> None: ...


def mark(name: Any, _semantic: Any = None) -> None:
    """Notes the moment at which a program comes by here."""
    _emit("mark", name, [], _semantic)


def value(name: Any, what: Any, _semantic: Any = None) -> None:
    """Notes the moment and a scalar: an index, a count, a maximum."""
    if _semantic is None or _probed(_semantic) is None:
        return
    scalar = _semantic.to_tensor(what)
    if scalar.type.is_block():
        raise ValueError(f"tileprobe.language.value({_text(name)!r}, ...) takes a scalar, got {scalar.type}")
    _emit("value", name, [_signed(scalar, _semantic)], _semantic)


for _function in (mark, value):
    _function.__triton_builtin__ = True  # type: ignore[attr-defined]


def _signed(scalar: Any, semantic: Any) -> Any:
    """A probe's payload is signed, and the IR does not say of a scalar whether it is."""
    import triton.language as tl

    if scalar.dtype.is_bool() or scalar.dtype.is_int_unsigned():
        return semantic.cast(scalar, tl.float64 if scalar.dtype == tl.uint64 else tl.int64)
    return scalar


def _text(name: Any) -> str:
    return str(getattr(name, "value", name))


def _probed(semantic: Any) -> str | None:
    """The pipeline of the variant being compiled, if it is one with probes."""
    from tileprobe.ir.mode import pipeline_in

    mode = getattr(getattr(semantic.builder, "options", None), "instrumentation_mode", "")
    return pipeline_in(mode or "")


def _emit(kind: str, name: Any, scalars: list[Any], semantic: Any) -> None:
    """As a print with a prefix of ours, or as assembly: both stay where they are. The pass `user-probes` makes a probe
    of it."""
    from tileprobe.ir.mode import SAYS

    if semantic is None or (pipeline := _probed(semantic)) is None:
        return
    signed = [scalar.dtype.is_int_signed() for scalar in scalars]
    handles = [scalar.handle for scalar in scalars]
    builder = semantic.builder
    if pipeline != SAYS:
        builder.create_print(f"tileprobe.{kind}:{_text(name)}", False, handles, signed)
        return
    text = f"// tileprobe.{kind}:{_text(name).encode().hex()}"
    builder.create_inline_asm(
        text, "=r,r", handles or [builder.get_int32(0)], [builder.get_int32_ty()], False, 1
    )
