"""Access to a daemon: tokens, users and certificates of clients."""
