"""Who may call a daemon, what a client's session holds, and in which order executions run."""
