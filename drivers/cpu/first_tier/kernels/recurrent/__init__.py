"""Writes steps of recurrent cells."""
