"""Options that several commands have, and the completion of their values."""
