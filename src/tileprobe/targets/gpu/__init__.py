"""NVIDIA and AMD GPUs, through Triton's own backends."""
