"""Driver daemons on the nodes of a cluster, placed and supervised by Ray."""
