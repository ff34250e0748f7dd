"""Metrics of the service manager and of the drivers that it supervises."""
