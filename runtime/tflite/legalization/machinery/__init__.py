"""The interface and helpers of legalization rules."""
