"""Passes of the CPU target: from TTIR to the tile dialect."""
