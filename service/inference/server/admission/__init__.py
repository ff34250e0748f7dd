"""Who may call, and how much memory requests may take."""
