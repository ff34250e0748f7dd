"""The logs of daemons and of the service manager: levels, formats, and harmless text."""
