"""What runs in the engine's environment: models, configs, preflight, the supervisor."""
