"""Transcription and translation: OpenAI's forms, answered by a model that listens in chat completions."""
