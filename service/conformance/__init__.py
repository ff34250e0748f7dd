"""The conformance suite: what every device must do, checked on one of them. `neurald conformance` runs it."""
