"""TFLite's forms: operations that move, repeat, select or resample elements."""
