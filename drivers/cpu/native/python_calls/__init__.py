"""Native code as functions of Python."""
