"""Commands for devices and their drivers."""
