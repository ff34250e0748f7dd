"""Devices behind sockets: messages, transport, client and server."""
