"""What stock vLLM-Omni shows when something is missing: really taken away, really run, written down.

docs/troubleshooting.md's table and docs/stock-failures.json come from here; see `command`.
"""
