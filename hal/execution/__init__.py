"""What drivers share for executions: requests bound to arrays, fenced executions, and bursts."""
