"""Files and directories of a process: locks, owners, secrets and configuration."""
