"""Driver daemons, the command line, the conformance suite and the demo."""
