"""Models of an execution service on this host, as functions (`neurald.connect_service`)."""
