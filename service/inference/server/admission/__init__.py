"""Access of clients, and the memory that requests may take."""
