"""Fuzzing of what users hand in: trace files, IR, options. A case is a command that ends well or says what is wrong."""
