"""The client library: builds or loads a model, chooses devices, plans, and executes."""
