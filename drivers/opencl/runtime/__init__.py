"""Runs a compiled step on a device: programs, launches, transfers and the persistent kernel."""
