"""Cambricon-LLM executed for real: weights in page images, on-die error correction, INT8 GeMV, text.

`FlashModel.load(folder, machine)` lays a Hugging Face folder out in the pages of the machine; `generate`
and `experiment` run it. The time of a token comes from the simulator; here are its values.
"""
