"""Spoken answers in chat completions, as OpenAI asks for them."""
