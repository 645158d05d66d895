"""Small deterministic checkpoints of the real architectures."""
