"""The whole acceptance suite against a stack that runs: what `verified` means. Needs httpx, numpy and av."""
