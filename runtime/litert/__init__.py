"""LiteRT's Python API on neurald, which `neurald.litert` exports."""
