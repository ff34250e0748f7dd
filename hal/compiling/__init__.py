"""Compiles models of daemons' clients and of applications in separate processes, within limits."""
