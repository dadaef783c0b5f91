"""Portable passes, one a file, for any IR with a `Structure`: select, instrument, merge-probes, sample,
assign-slots, probe-to-record. The name of a file here is the name of its pass."""
