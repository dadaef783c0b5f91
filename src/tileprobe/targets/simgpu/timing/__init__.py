"""Time on a simulated GPU: how instructions are timed, a chip of multiprocessors, and what it has counted."""
