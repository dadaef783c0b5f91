"""Random whole kernels, compiled for the CPU and compared with Triton's interpreter. `python -m fuzz --help`."""
