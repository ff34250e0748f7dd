"""Sizes of steps with open dimensions for the lengths of an execution."""
