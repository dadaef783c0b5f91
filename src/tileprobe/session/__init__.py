"""The session: around launches it decides what is probed, and makes a trace of what was recorded."""
