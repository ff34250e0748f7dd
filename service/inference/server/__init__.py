"""The front end: listens for clients over gRPC and HTTP."""
