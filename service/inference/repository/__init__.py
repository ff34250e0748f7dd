"""The folders of models, and their configuration."""
