"""Operators that torch has for CUDA alone, by plain operators: the fused cells of recurrent layers.

By the names of `aten`. Tensors come in on the CPU and go out there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def cells(torch: Any) -> dict[str, Callable[..., Any]]:
    def plus(gates: Any, bias: Any) -> Any:
        return gates if bias is None else gates + bias

    def lstm(inputs: Any, hidden: Any, cx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
        i, f, g, o = (plus(inputs, input_bias) + plus(hidden, hidden_bias)).chunk(4, 1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        cy = f * cx + i * g
        return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)

    def lstm_backward(grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, workspace: Any, has_bias: bool) -> Any:
        if grad_hy is None and grad_cy is None:
            return None, None, None
        i, f, g, o = workspace.chunk(4, 1)
        bent = cy.tanh()
        of_hy = torch.zeros_like(cx) if grad_hy is None else grad_hy
        of_cy = of_hy * o * (1 - bent * bent)
        of_cy = of_cy if grad_cy is None else of_cy + grad_cy
        rows = [
            of_cy * g * i * (1 - i),
            of_cy * cx * f * (1 - f),
            of_cy * i * (1 - g * g),
            of_hy * bent * o * (1 - o),
        ]
        gates = torch.cat(rows, 1)
        return gates, of_cy * f, gates.sum(0) if has_bias else None

    def gru(inputs: Any, hidden: Any, hx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
        ir, iz, new = plus(inputs, input_bias).chunk(3, 1)
        hr, hz, hn = plus(hidden, hidden_bias).chunk(3, 1)
        r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
        n = (new + r * hn).tanh()
        return n + z * (hx - n), torch.cat([r, z, n, hx, hn], 1)

    def gru_backward(grad_hy: Any, workspace: Any, has_bias: bool) -> Any:
        r, z, n, hx, hn = workspace.chunk(5, 1)
        of_z = grad_hy * (hx - n) * z * (1 - z)
        of_n = grad_hy * (1 - z) * (1 - n * n)
        of_r = of_n * hn * r * (1 - r)
        inputs, hidden = torch.cat([of_r, of_z, of_n], 1), torch.cat([of_r, of_z, of_n * r], 1)
        sums = (inputs.sum(0), hidden.sum(0)) if has_bias else (None, None)
        return inputs, hidden, grad_hy * z, *sums

    return {
        "_thnn_fused_lstm_cell": lstm,
        "_thnn_fused_lstm_cell_backward_impl": lstm_backward,
        "_thnn_fused_gru_cell": gru,
        "_thnn_fused_gru_cell_backward": gru_backward,
    }
