"""A device in a daemon, seen from its client."""
