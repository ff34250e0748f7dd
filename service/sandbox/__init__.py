"""Sandbox of driver processes, which run vendors' code on untrusted models."""
