"""Recovery from devices that fail or become slow."""
