"""Binds operations to the kernels of the first tier: decides which can run, and with which data.

Nothing is compiled. Constants are arranged for the kernels, and tables describe windows.
"""
