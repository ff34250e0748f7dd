"""Decides which clients may call a daemon, what a session may hold, and in which order executions run."""
