"""What a kernel can run on: one package a target, each with its dialect, passes, lowering and engine."""
