"""Plan files: compiled models with their plans, signed, for other machines of the same kind."""
