"""Converts inputs and outputs of models from and to files, images, shapes and classes."""
