"""From instructions to micro-ops, one file a kind. An instruction that no file knows is refused."""
