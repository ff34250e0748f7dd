"""What every operation is described with: signatures, shape rules, and the call that a reference sees."""
