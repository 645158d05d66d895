"""Speech: OpenAI's request for it, and how an engine's sound becomes the answer."""
