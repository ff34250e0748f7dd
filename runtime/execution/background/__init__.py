"""Executions in the background: events, fences, streams, and the preparation of better code."""
