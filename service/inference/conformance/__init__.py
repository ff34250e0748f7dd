"""A conformance suite for servers of the V2 inference protocol, this one and others."""
