"""The trace: record layout, decoding, replay and the file on disk."""
