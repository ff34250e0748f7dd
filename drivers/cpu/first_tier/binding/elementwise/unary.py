"""Binds functions of one element."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.elementwise.element_call import element_call, has_table
from neurald.drivers.cpu.first_tier.binding.scope import (
    FLOAT,
    UNLIMITED,
    WORD,
    Bind,
    BindingScope,
    bits,
    bound_by,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call

#: Kernels of functions of one float, and the limits of their results.
_UNARY: Final = {
    "RELU": ("clamp", (0.0, np.inf)),
    "RELU1": ("clamp", (-1.0, 1.0)),
    "RELU6": ("clamp", (0.0, 6.0)),
    "TFLITE_RELU": ("clamp", (0.0, np.inf)),
    "TFLITE_RELU6": ("clamp", (0.0, 6.0)),
    "TFLITE_RELU_N1_TO_1": ("clamp", (-1.0, 1.0)),
    "TFLITE_RELU_0_TO_1": ("clamp", (0.0, 1.0)),
    **{
        name: (function, None)
        for name, function in {
            "ABS": "absolute",
            "TFLITE_ABS": "absolute",
            "EXP": "exp",
            "TFLITE_EXP": "exp",
            "FLOOR": "floor",
            "TFLITE_FLOOR": "floor",
            "TFLITE_CEIL": "ceil",
            "TFLITE_ROUND": "round",
            "LOG": "log",
            "TFLITE_LOG": "log",
            "NEG": "negative",
            "TFLITE_NEG": "negative",
            "RSQRT": "rsqrt",
            "TFLITE_RSQRT": "rsqrt",
            "SQRT": "sqrt",
            "TFLITE_SQRT": "sqrt",
            "TFLITE_SIGN": "sign",
            "SIN": "sine",
            "TFLITE_COS": "cosine",
            "TFLITE_SQUARE": "square",
            "LOGISTIC": "logistic",
            "TFLITE_LOGISTIC": "logistic",
            "TANH": "tanh",
            "TFLITE_TANH": "tanh",
            "HARD_SWISH": "hard_swish",
            "TFLITE_GELU": "gelu",
            "ELU": "elu",
            "TFLITE_ELU": "elu",
            "TFLITE_LEAKY_RELU": "leaky_relu",
        }.items()
    },
}
#: Functions of one 32-bit integer.
_OF_WORDS: Final = frozenset(("absolute", "negative", "square", "sign"))


def bind_unary(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds functions of one element."""
    (name,) = (each for each in call.binding.inputs if call.operand(each).type.is_tensor)
    operand, output = call.operand(name), call.operand("output")
    if has_table(operand, output):
        # Models of floats need no tables.
        from neurald.drivers.cpu.first_tier.binding.elementwise.tables import table_calls

        return table_calls(scope, call, name)
    function, ends = _UNARY[call.binding.type.name]
    if operand.type is output.type is WORD and function in _OF_WORDS:
        return element_call(call, f"{function}_word", (name,))
    if not operand.type is output.type is FLOAT:
        raise NotBound("the types have no kernel")
    words: tuple[int, ...] = UNLIMITED if ends is None else (bits(ends[0]), bits(ends[1]))
    if "alpha" in call.binding.inputs:
        alpha = float(call.scalar("alpha"))
        # Android's ELU then changes numbers above 0 instead.
        if call.binding.type.name == "ELU" and not alpha >= 0:
            raise NotBound("alpha is negative")
        words = (bits(alpha), *words)
    if function == "gelu" and call.scalar("approximate"):
        function = "approximate_gelu"
    return element_call(call, function, (name,), words)


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **bound_by(bind_unary, *_UNARY),
}
