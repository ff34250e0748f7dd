"""Requests: their inputs and limits, their way through the queue, and their batches."""
