"""The service manager: starts, supervises, stops and replaces the driver daemons of a user."""
