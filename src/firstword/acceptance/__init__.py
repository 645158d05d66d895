"""What a good answer is, and the client that asks for one. Needs httpx, numpy and av; imports none of them here."""
