"""Run without Docker: environments, engines in the background, tests. Standard library only, Python 3.12."""
