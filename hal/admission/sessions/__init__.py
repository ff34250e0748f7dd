"""The belongings of clients of a daemon: models, memories, buffers and fences."""
