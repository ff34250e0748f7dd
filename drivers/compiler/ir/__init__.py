"""The compiler's intermediate representation: graphs of nodes, and expressions of single elements."""
