"""Chaos: `tileprobe run` while processes are killed, disks are full and pipes closed. What is promised must hold."""
