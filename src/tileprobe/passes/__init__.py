"""Portable passes over IR, one a file."""
