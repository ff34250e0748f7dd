"""The V2 protocol over HTTP: the application, its server, metrics and OpenAPI document."""
