"""Serves a device to clients: handler, server, side channel and rings."""
