"""The pytest plugin: performance tests of GPU kernels on machines without a GPU (docs/pytest.md)."""
