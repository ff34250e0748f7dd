"""The driver process: serves a device at an address, reports its health, and limits its memory."""
