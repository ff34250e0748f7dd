"""Shared memory that clients register."""
