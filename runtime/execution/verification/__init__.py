"""Verification: sampled executions of steps are compared with the CPU device's results."""
