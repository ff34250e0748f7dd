"""Compiles models of a daemon's clients in separate processes, with limits of time and memory."""
