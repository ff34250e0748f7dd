"""Threads of a process: how they start, take turns, wait for processors, and work later."""
