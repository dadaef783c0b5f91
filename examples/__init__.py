"""Examples: kernels to read, run and profile."""
