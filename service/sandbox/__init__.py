"""The sandbox of driver processes, which run vendor code on untrusted models."""
