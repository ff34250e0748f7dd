"""Measured executions: durations of steps, profiles, receipts, and the pace for time limits."""
