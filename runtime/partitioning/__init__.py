"""Which device runs which operations: policies, overrides, limits, and grouping into steps."""
