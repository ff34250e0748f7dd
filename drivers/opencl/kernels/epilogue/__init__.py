"""What follows the sums of a contraction."""
