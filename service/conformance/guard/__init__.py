"""Runs cases between guard pages, in processes that a fault may end."""
