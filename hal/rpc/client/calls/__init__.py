"""The gRPC calls of a connection to a daemon."""
