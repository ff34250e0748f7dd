"""Ways in which requests are run: by the event loop, at once, and like a known one."""
