"""Rules for models and requests, and the inference of shapes."""
