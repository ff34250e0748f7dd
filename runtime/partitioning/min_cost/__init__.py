"""The policy of least cost: predicts the times of plans, and searches for the best one."""
