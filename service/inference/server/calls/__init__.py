"""The calls of clients, whichever transport they use."""
