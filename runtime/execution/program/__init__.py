"""Plans as programs: executors, control flow, steps at the same time, and temporary values."""
