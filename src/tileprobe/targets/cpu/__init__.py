"""The CPU target: a Triton backend named `cpu` (TTIR to scheduled tile IR to LLVM, run on all cores)."""
