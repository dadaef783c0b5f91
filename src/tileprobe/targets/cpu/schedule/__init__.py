"""From TTIR to the tile dialect: which values become buffers, which are recomputed, and what runs as one stage."""
