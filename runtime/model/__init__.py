"""Building a model, and what the runtime derives from a model before it chooses devices."""
