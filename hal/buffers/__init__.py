"""Tracks device memory, and moves arguments of requests to other memory."""
