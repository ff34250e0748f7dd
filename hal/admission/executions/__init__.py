"""The order of executions, and the limits of their time."""
