"""Limits of the calls and messages of clients."""
