"""Decides which clients may call a daemon, what they may hold, and the order of executions."""
