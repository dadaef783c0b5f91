"""The engine: micro-ops executed warp by warp, compiled by Numba once and kept."""
