"""The transport that client and server share: statuses, packets, rings and access tokens."""
