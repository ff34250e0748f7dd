"""Executions of a compilation: arguments, executors, control flow, fallback, bursts and events."""
