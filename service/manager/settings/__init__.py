"""The configuration of the service manager and of the execution service."""
