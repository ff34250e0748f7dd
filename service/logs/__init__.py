"""The logs of daemons and of the service manager: levels, formats, and text that cannot forge lines."""
