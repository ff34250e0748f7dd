"""Measured executions: durations of steps, profiles, receipts, and the pace that time limits demand."""
