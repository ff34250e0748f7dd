"""Options that several commands have, and what completes their values."""
