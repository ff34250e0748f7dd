"""Lanes: one process has another run a model, through shared memory and a socket."""
