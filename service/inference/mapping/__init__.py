"""Files of clients, mapped so that a process survives their truncation."""
