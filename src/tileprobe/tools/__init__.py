"""Tools: a tool says what it wants probed (`plan`) and later reads the trace (`read`)."""
