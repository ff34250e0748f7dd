"""How much a daemon lends: limits, accounts, and the memories that count against them."""
