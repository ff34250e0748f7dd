"""One driver process: a device served at an address, its health, and the limit of its memory."""
