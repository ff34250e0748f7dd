"""Makes the service manager a service of systemd, of a user or of the machine."""
