"""Tracks the use of device memory, and stages requests in other memory."""
