"""One OpenAI-compatible address for all engines. Runs in an environment of its own, without torch or vLLM."""
