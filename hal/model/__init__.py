"""What a model is made of: types, operands, operations, constants, strings and extensions."""
