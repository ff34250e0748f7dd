"""Which devices there are: in this process, in daemons, and with which extensions."""
