"""Inputs and outputs of models as a user gives and gets them: files, images, shapes and classes."""
