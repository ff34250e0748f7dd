"""The policy of least cost: predicts what plans take, and searches the best one."""
