"""End to end: the same requests to the release and to the patched engine, in turns."""
