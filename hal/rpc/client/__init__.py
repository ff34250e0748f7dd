"""The client's side of a device in a daemon."""
