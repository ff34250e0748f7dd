"""TFLite's forms: operations that compute each element from the elements at its position."""
