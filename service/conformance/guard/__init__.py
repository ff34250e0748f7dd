"""Runs cases between guard bytes and guard pages, in processes that a fault may end."""
