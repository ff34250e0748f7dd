"""Arguments of executions: arrays, memories, device memories and strings."""
