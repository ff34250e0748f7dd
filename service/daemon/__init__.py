"""The driver daemon, which serves a device at an address, reports its health, and limits memory."""
