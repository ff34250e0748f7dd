"""The parts of a model: types, operands, operations, constants, strings and extensions."""
