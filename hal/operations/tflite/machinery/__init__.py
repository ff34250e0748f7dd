"""What operations of TFLite's extension share: element types, type tables, and widened definitions."""
