"""Discovers devices in this process and in daemons, and their vendor extensions."""
