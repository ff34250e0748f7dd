"""Common parts of TFLite's extension: element types, type tables, and extended definitions."""
