"""The process that loads a model and runs it. Nothing else of the service reads models."""
