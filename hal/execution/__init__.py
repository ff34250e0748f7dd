"""Executions in drivers: array models, fenced executions, bursts, references."""
