"""Drops trailing arguments that have default values, so that older devices accept an operation."""

from collections.abc import Sequence

import numpy as np

from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.types import Lifetime
from neurald.hal.operations.machinery.signature import Parameter
from neurald.hal.operations.vendor import definition_of
from neurald.hal.records import replace


def without_defaults(operation: Operation, operands: Sequence[Operand]) -> Operation:
    """Returns the equivalent operation with the fewest arguments.

    Only arguments that are small constants can be dropped. Arguments that belong together, such as
    two dilations, are kept or dropped together.
    """
    definition = definition_of(operation.type)
    if definition is None:
        return operation
    form = definition.bind(operation, operands).form
    given = len(operation.inputs)
    if any(parameter.variadic for parameter in form.inputs):
        return operation
    for count in sorted(form.input_counts()):
        if count >= given:
            break
        trailing = zip(form.inputs[count:given], operation.inputs[count:], strict=True)
        if all(_is_default(parameter, operands[index]) for parameter, index in trailing):
            return replace(operation, inputs=operation.inputs[:count])
    return operation


def _is_default(parameter: Parameter, operand: Operand) -> bool:
    if parameter.default is None or operand.lifetime is not Lifetime.CONSTANT_COPY or not operand.value:
        return False
    return bool(np.frombuffer(operand.value, operand.type.dtype)[0] == parameter.default)
