"""What commands share: which devices a user means, what is measured, and how it is written."""
