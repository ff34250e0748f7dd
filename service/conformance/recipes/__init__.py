"""conformance/draw:draw Arguments that go together, drawn for each operation."""
