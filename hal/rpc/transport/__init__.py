"""What client and server share: statuses, packets, burst rings and access tokens."""
