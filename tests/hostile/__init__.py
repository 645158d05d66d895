"""Requests that no honest client sends, and what a server may answer to them."""
