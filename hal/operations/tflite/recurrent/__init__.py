"""TFLite's forms: recurrent cells and sequences of them."""
