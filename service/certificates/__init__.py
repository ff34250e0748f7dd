"""Issues and revokes the certificates of daemons and clients on different hosts."""
