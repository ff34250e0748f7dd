"""The live page for operators."""
