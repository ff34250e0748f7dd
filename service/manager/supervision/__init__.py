"""One driver of the service manager: its process, its socket, its restarts and its clients."""
