"""Benchmarks, one a file: `python -m benchmarks.NAME`."""
