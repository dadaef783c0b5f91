"""Cambricon-LLM: a machine that computes inside NAND flash, declared as data, compiled for and simulated
to the page.

`machine` and `model` read what the user has, `compiler` makes IR of them, `passes` tile, split and map it,
`engine` runs it, `report` tells. Nothing is imported here: `import tileprobe` never reaches this package.
"""
