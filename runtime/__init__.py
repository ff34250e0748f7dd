"""The client library: build or load a model, choose devices, plan, execute."""
