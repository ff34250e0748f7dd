"""Recipes: draw arguments that fit together, for each operation."""
