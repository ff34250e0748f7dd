"""The V2 protocol over gRPC: the server, its service, health and reflection."""
