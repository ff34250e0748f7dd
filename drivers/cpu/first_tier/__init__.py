"""The first tier: kernels for any shapes, compiled once per machine, to which models are bound."""
