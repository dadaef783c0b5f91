"""Operators on f16 and bf16 that a GPU computes in f32 and rounds once, where torch's CPU kernels round on the way, are
a thousand times slower (f16 products on a CPU without instructions for them), or do not take such tensors.

For these, arguments are widened before the CPU's kernel and results are rounded behind it. Which operators: those whose
results on the CPU were off by two units in the last place and more from rounding once, over torch's own samples
(`scripts/cuda_operators.py --half`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Products: only where the CPU has no instructions for the format, which sum in f32 themselves.
_PRODUCTS = frozenset(["mm", "addmm", "bmm", "baddbmm", "addmv", "dot", "vdot"])
# The others, and their backward passes.
_ALWAYS = frozenset([
    "_softmax", "_log_softmax", "log_sigmoid", "log_sigmoid_forward", "native_batch_norm", "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training", "_batch_norm_with_update", "batch_norm", "native_layer_norm",
    "native_group_norm", "grid_sampler_2d", "grid_sampler_3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_bicubic2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    "_adaptive_avg_pool3d", "adaptive_avg_pool3d", "avg_pool3d", "logit", "linalg_cross", "linalg_matrix_exp",
    "polygamma", "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_margin_loss_forward",
    "rrelu_with_noise", "nll_loss", "nll_loss_forward", "nll_loss2d", "nll_loss2d_forward",
    "addbmm", "addr", "embedding_dense", "convolution", "convolution_overrideable",
])  # fmt: skip
# What is kept for the backward pass, which a GPU has in f32 whatever the tensor's type: by the place among the results.
_STATISTICS = {
    "log_sigmoid_forward": (1,),
    "native_layer_norm": (1, 2), "native_batch_norm": (1, 2), "_native_batch_norm_legit": (1, 2),
    "_native_batch_norm_legit_no_training": (1, 2), "_batch_norm_with_update": (1, 2),
}  # fmt: skip


class Widening:
    """How one operator is widened."""

    def __init__(self, torch: Any, base: str) -> None:
        self._float, self._tensor = torch.float32, torch.Tensor
        self._narrow = {torch.float16, torch.bfloat16}
        if base in _PRODUCTS:
            self._narrow = {kind for kind, has in _instructions(torch) if not has()}
        self._kept = _STATISTICS.get(base, ())
        # These have the type of an argument or a result as an argument, at its place.
        self._to_float = 2 if base in ("_softmax", "_log_softmax") else None
        self._of_input = 3 if base in ("_softmax_backward_data", "_log_softmax_backward_data") else None

    def kind(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The type that results are rounded to; None where the operator is to be called as it is."""
        if self._of_input is not None:
            return args[self._of_input] if args[self._of_input] in self._narrow else None
        for value in [*args, *kwargs.values()]:
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, self._tensor) and item.dtype in self._narrow:
                    return item.dtype
        return None

    def run(
        self, call: Callable[..., Any], kind: Any, args: list[Any], kwargs: dict[str, Any], written: list[Any]
    ) -> Any:
        """Calls with wide arguments. What the operator has written into these is rounded into the given ones."""
        pairs: list[tuple[Any, Any]] = []
        wide = [self._wide(value, pairs) for value in args]
        named = {name: self._wide(value, pairs) for name, value in kwargs.items()}
        to_float = self._to_float is not None and args[self._to_float]
        if self._to_float is not None:
            wide[self._to_float] = False
        if self._of_input is not None:
            wide[self._of_input] = self._float
        result = call(wide, named)
        for narrow, copy in pairs:
            if any(narrow is tensor for tensor in written):
                narrow.copy_(copy)
        if to_float:
            return result
        if isinstance(result, tuple):
            return tuple(v if n in self._kept else self._rounded(v, kind) for n, v in enumerate(result))
        return self._rounded(result, kind)

    def _wide(self, value: Any, pairs: list[tuple[Any, Any]]) -> Any:
        if isinstance(value, list):
            return [self._wide(item, pairs) for item in value]
        if not isinstance(value, self._tensor) or value.dtype not in self._narrow:
            return value
        pairs.append((value, value.to(self._float)))
        return pairs[-1][1]

    def _rounded(self, value: Any, kind: Any) -> Any:
        if isinstance(value, self._tensor) and value.dtype is self._float:
            return value.to(kind)
        return value


def of(torch: Any, base: str) -> Widening | None:
    family = base.removesuffix("_data").removesuffix("_backward")  # `_softmax_backward_data`
    return Widening(torch, base) if family in _ALWAYS or base in _PRODUCTS else None


def _instructions(torch: Any) -> list[tuple[Any, Callable[[], bool]]]:
    ops = torch.ops.mkldnn
    return [
        (torch.float16, ops._is_mkldnn_fp16_supported),
        (torch.bfloat16, ops._is_mkldnn_bf16_supported),
    ]
