"""Epilogues: operations on the results of a contraction."""
