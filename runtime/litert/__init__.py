"""LiteRT's Python API on neurald: what `neurald.litert` exports."""
