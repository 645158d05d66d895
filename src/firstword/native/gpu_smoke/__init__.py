"""Verify a GPU host: the whole stack built, started, tried with its real weights, and taken down. Stdlib only."""
