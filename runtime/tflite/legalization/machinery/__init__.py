"""What every legalization rule is made with."""
