"""What the gateway answers, one module per area."""
