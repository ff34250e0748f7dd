"""Custom operators that an application computes in Python.

In a model, such an operator is the operation CALL of the extension `org.neurald.python`. Its first
input is the number of the call, which only the device of the application's process understands.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.extension import Extension, ExtensionOperation
from neurald.runtime.tflite.file.schema import Operator

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

#: Computes an operator: from its inputs, which must not be changed, None for omitted ones, and its
#: custom options. It returns one array, or several for an operator with several outputs.
CustomFunction: TypeAlias = Callable[[Sequence[Any], bytes], Array | Sequence[Array]]

EXTENSION = Extension(name="org.neurald.python", operations=(ExtensionOperation(code=0, name="CALL"),))
CALL = EXTENSION.operation_type(0)


class CustomCall(Struct, frozen=True):
    """An operator of a file, and what computes it.

    Attributes:
        name: the name of the operator.
        function: computes it.
        options: the bytes of its options.
    """

    name: str
    function: CustomFunction
    options: bytes


class CustomOperators:
    """The functions of custom operators by name, which an application registers."""

    def __init__(self) -> None:
        self._functions: dict[str, CustomFunction] = {}
        self._calls: list[CustomCall] = []

    def add(self, name: str, function: CustomFunction) -> None:
        """Registers the function of an operator; it replaces an operator that neurald has.

        Args:
            name: the name of the custom operator in the file.
            function: takes the inputs and the bytes of the custom options, and returns the output.

        Raises:
            BadData: there is no name, or it is no function.
        """
        if not isinstance(name, str) or not name or not callable(function):
            raise BadData(f"custom operator {name!r}: {function!r}; a name and a function are expected")
        self._functions[name] = function

    def __bool__(self) -> bool:
        return bool(self._functions)

    def number(self, operator: Operator) -> int | None:
        """Returns the number of the call that computes an operator; None if it has no function."""
        function = self._functions.get(operator.custom_code)
        if function is None:
            return None
        call = CustomCall(operator.custom_code, function, bytes(operator.custom_options))
        if call not in self._calls:
            self._calls.append(call)
        return self._calls.index(call)

    def call(self, number: int) -> CustomCall:
        """Returns a call by its number.

        Raises:
            BadData: there is none.
        """
        if not 0 <= number < len(self._calls):
            raise BadData(f"call {number} of a custom operator; there are {len(self._calls)}")
        return self._calls[number]
