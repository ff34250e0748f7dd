"""Arithmetic shared by references of TFLite's extension.

Tables of functions, and the error function.
"""
