"""Portable passes, one a file, for any IR with a `Structure`: select, instrument, user-probes,
merge-probes, sample, assign-slots, probe-to-record. The name of a file here is the name of its pass."""
