"""Passes over Triton's GPU IR, one a file."""
