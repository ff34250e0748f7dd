"""Recipes, which draw valid arguments for each operation."""
