"""A folder for PYTHONPATH: Python runs the `sitecustomize` in it when a child process of `tileprobe run` starts."""
