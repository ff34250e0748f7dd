"""The framework of operation definitions.

Signatures, checks, shape rules, and the call that a reference sees.
"""
