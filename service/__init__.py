"""Driver daemons and the command line."""
