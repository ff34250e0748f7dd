"""What drivers share for executions: array models, fenced executions, bursts, references."""
