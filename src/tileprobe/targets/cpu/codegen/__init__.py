"""Tile IR to LLVM IR: loop nests, packing and micro-kernels, emitted with llvmlite."""
