"""What decides what is probed: hooks into Triton, launches, parameters and record buffers."""
