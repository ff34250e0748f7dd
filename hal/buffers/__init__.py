"""Device memory under supervision, and the staging of requests."""
