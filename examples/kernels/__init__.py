"""Stock Triton kernels, each in a file of its own with how to call it, a NumPy reference and a check.

Every module offers `CASES` (keyword arguments) and `check(**case)`, which runs the kernels on fresh inputs,
compares them with a float64 reference and returns the largest error it saw. Nothing here knows which
target runs the kernels.
"""

NAMES = (
    "vector_add",
    "softmax",
    "matmul",
    "persistent_matmul",
    "grouped_gemm",
    "block_scaled",
    "dropout",
    "layer_norm",
    "attention",
)
