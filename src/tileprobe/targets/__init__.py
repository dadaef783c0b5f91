"""What a kernel can run on: one package a target, each with its dialect, passes, lowering and engine.

`base` is the protocol that all of them keep, `catalog` finds them by name. Importing this is cheap: Triton does it
while it looks for backends.
"""
