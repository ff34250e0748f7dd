"""LiteRT's CompiledModel, its options and its buffers."""
