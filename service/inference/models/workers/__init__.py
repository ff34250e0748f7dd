"""Processes that run models, as the front end sees them, and its lanes to them."""
