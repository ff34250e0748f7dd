"""The first tier: kernels for any shapes, compiled once for a machine, to which models are bound."""
