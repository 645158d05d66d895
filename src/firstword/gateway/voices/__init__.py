"""Voices to clone: recordings that clients upload, or name in a request, and how an engine is given them."""
