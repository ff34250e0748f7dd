"""Inputs and outputs of models in user-facing forms: files, images, shapes and classes."""
