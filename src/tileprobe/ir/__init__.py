"""The IR: the bridge from and to Triton's IR, thin accessors for its ops, and the portable dialects."""
