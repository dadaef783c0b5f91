"""Passes from a step of a model to commands of the machine, one a file: tile, double-buffer, split, map
pages, slice.
"""
