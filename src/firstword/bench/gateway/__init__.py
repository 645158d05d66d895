"""What the gateway costs beside no proxy, nginx and LiteLLM's proxy: one run, one scripted upstream."""
