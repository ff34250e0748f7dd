"""What both ends of a connection share: statuses, packets, burst rings and access tokens."""
