"""A folder for PYTHONPATH: suites that are run may have a package `benchmarks` of their own."""
