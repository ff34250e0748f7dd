"""The costs of operations, launches and transfers on each device: measured, kept and estimated."""
