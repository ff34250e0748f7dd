"""Known refusals of forms that LiteRT runs, and intended differences from its results.

`scripts/operations.py` writes both tables to `docs/operations.md`, and `test_sweep.py` checks them.
They must stay short: whatever LiteRT runs usefully must be supported.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Forms with the same reason.

    Attributes:
        operators: their names, or `*` for all.
        forms: a pattern that matches the start of the forms' names.
        message: a pattern in the message of a refusal; empty for forms whose results differ.
        what: the forms, for people.
        why: the reason, for people.
    """

    operators: tuple[str, ...]
    forms: str
    message: str = ""
    what: str
    why: str

    def matches(self, operator: str, form: str, message: str) -> bool:
        """Returns True if it matches the form and the message of its refusal."""
        is_named = "*" in self.operators or operator in self.operators
        return is_named and bool(re.match(self.forms, form)) and bool(re.search(self.message, message))


def known(entries: Sequence[Known], operator: str, form: str, message: str = "") -> Known | None:
    """Returns the entry that a form belongs to."""
    return next((entry for entry in entries if entry.matches(operator, form, message)), None)


_EVERY = r".*"
_ACTIVATED = (
    "ADD",
    "AVERAGE_POOL_2D",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "DIV",
    "FULLY_CONNECTED",
    "L2_NORMALIZATION",
    "L2_POOL_2D",
    "MAX_POOL_2D",
    "MUL",
    "SUB",
    "TRANSPOSE_CONV",
    "CONCATENATION",
    "CONV_3D",
    "CONV_3D_TRANSPOSE",
)

REFUSED: tuple[Known, ...] = (
    Known(
        operators=_ACTIVATED,
        forms=r".*activation 5",
        message="fused activation SIGN_BIT",
        what="the fused activation SIGN_BIT",
        why="LiteRT ignores the activation silently; no converter writes it.",
    ),
    Known(
        operators=_ACTIVATED,
        forms=r".*activation 4",
        message="fused activation TANH of a quantised|input of TFLITE_TANH",
        what="the fused activation TANH of quantised values and integers",
        why="LiteRT ignores the activation silently; no converter writes it.",
    ),
    Known(
        operators=("RANK", "SHAPE"),
        forms=r"q16z",
        message="needs 0",
        what="an INT16 input with a zero point, of which only the shape is used",
        why="The shape is known when the file is loaded, so no operation remains that reads the input.",
    ),
    Known(
        operators=("SELECT",),
        forms=r"f32 (row of|scalar for) \(0, 2\)",
        message="of the condition",
        what="an empty condition of another rank",
        why="LiteRT does not check the shapes of empty tensors.",
    ),
    Known(
        operators=("PRELU",),
        forms=r"q16",
        message="has type TENSOR_QUANT16_SYMM",
        what="INT16 slopes",
        why="LiteRT reads them as INT8, which gives wrong values. INT8 slopes are supported.",
    ),
    Known(
        operators=("DEQUANTIZE", "QUANTIZE"),
        forms=r".*by channel",
        message="has a scale for each channel|has a zero point other than 0 for a channel",
        what="per-channel scales of a result of an operator or of UINT8, per-channel zero points of an input",
        why="Converters write per-channel scales only for INT8 weights, which are constants or inputs.",
    ),
    Known(
        operators=("CONV_2D", "FULLY_CONNECTED"),
        forms=r"hybrid uint8, weights fed",
        message="must be constants",
        what="UINT8 weights that are not constants, with float data",
        why="Such weights are converted to INT8 when the file is loaded, which requires constants.",
    ),
    Known(
        operators=("CONV_2D", "FULLY_CONNECTED"),
        forms=r"uint8 by int8",
        message="TENSOR_QUANT8_ASYMM_SIGNED",
        what="UINT8 data with INT8 weights",
        why="LiteRT reads the weights as UINT8, which gives wrong values.",
    ),
    Known(
        operators=("BATCH_MATMUL", "FULLY_CONNECTED"),
        forms=r"int8 to int16",
        message="is expected with the types of the other operands",
        what="INT8 data with an INT16 result",
        why="LiteRT reads or writes a type that differs from the file; its reference kernel crashes.",
    ),
    Known(
        operators=("SOFTMAX",),
        forms=r"(f32|q8z|qu8z) to int16",
        message="is expected with the types of the other operands",
        what="an INT16 result of data of another type",
        why="LiteRT's kernels disagree with each other, and no converter writes this form.",
    ),
    Known(
        operators=("LSH_PROJECTION",),
        forms=r".*(i64|q8)",
        message="has type",
        what="INT64 and INT8 inputs",
        why="Hashes are defined for Android's types; no known model uses others.",
    ),
    Known(
        operators=("SVDF",),
        forms=r"integers q8",
        message="weights_time",
        what="integer data with an INT8 state",
        why="LiteRT computes with INT16 states, and does not check the type of the state.",
    ),
    Known(
        operators=("EMBEDDING_LOOKUP",),
        forms=r"q16z? to f32",
        message="with the types of the other operands",
        what="INT16 tables with a float result",
        why="LiteRT reads the values as bytes.",
    ),
)

_UNWRITTEN = "LiteRT leaves parts of the result uninitialised."

DIFFERENT: tuple[Known, ...] = (
    Known(
        operators=_ACTIVATED,
        forms=r".*activation 4",
        what="the fused activation TANH of floats",
        why="LiteRT ignores the activation silently; neurald computes it.",
    ),
    Known(
        operators=("CONCATENATION",),
        forms=r"activation [123]",
        what="a fused activation",
        why="LiteRT ignores the activation silently; neurald computes it.",
    ),
    Known(
        operators=("ATAN2",),
        forms=r"f32 \(.* by ",
        what="inputs of different shapes",
        why="LiteRT does not broadcast; its result has the shape of the first input.",
    ),
    Known(
        operators=("DIV",),
        forms=r"q",
        what="quantised quotients with a dividend near the zero point",
        why="LiteRT shifts by more bits than the type has if the dividend minus its zero point is 0 or -1.",
    ),
    Known(
        operators=("MATRIX_DIAG", "MATRIX_SET_DIAG"),
        forms=r"(bool|c64|f16|f64|u16|u32|u64|str) ",
        what="BOOL, FLOAT16, FLOAT64, unsigned integers other than UINT8, complex numbers and strings",
        why=_UNWRITTEN,
    ),
    Known(operators=("FILL",), forms=r"str ", what="strings", why=_UNWRITTEN),
    Known(operators=("TRANSPOSE", "LOG_SOFTMAX"), forms=r"\w+ \(\)", what="scalars", why=_UNWRITTEN),
    Known(
        operators=("STRIDED_SLICE",),
        forms=r".* without axis",
        what="a removed axis of length 0",
        why="LiteRT reads elements outside of the tensor; neurald's results are 0.",
    ),
    Known(
        operators=("REDUCE_PROD",),
        forms=r"q8z (\(0, 3\) axes \(0|\(3, 0\) axes \((-1|0, 1))",
        what="quantised products over empty axes",
        why=_UNWRITTEN,
    ),
    Known(
        operators=("AVERAGE_POOL_2D",),
        forms=r"f16 (no images|too few rows)",
        what="an empty batch of FLOAT16 images, and FLOAT16 images smaller than the window",
        why="The shape of LiteRT's result is arbitrary.",
    ),
    Known(
        operators=("CONV_2D", "TRANSPOSE_CONV", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"),
        forms=r"float, half weights",
        what="FLOAT16 weights with FLOAT32 data",
        why="LiteRT reads the weights as FLOAT32; neurald converts them.",
    ),
    Known(
        operators=("CONV_2D", "TRANSPOSE_CONV"),
        forms=r"int16 .*with bias of 32 bits",
        what="INT16 data with an INT32 bias",
        why="LiteRT reads the bias as INT64 in its generic kernel.",
    ),
    Known(
        operators=("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"),
        forms=r"int8 weights with zero point",
        what="INT8 weights with a zero point other than 0",
        why="LiteRT assumes 0, which the specification requires; neurald applies the zero point.",
    ),
    Known(
        operators=("CONV_2D",),
        forms=r"hybrid, groups",
        what="grouped convolutions of float data with INT8 weights of a single scale",
        why="Only XNNPACK computes them, and quantises the data with a zero point; neurald quantises as it does without groups.",
    ),
    Known(
        operators=("BATCH_MATMUL",),
        forms=r"int(8|16) by channel",
        what="a constant with per-channel scales, and INT8 or INT16 data",
        why="LiteRT multiplies everything by 0, and writes bytes to a FLOAT32 result; neurald applies the scales.",
    ),
    Known(
        operators=("BIDIRECTIONAL_SEQUENCE_LSTM",),
        forms=r".*merged",
        what="merged outputs in batch-major order",
        why="From the second batch on, LiteRT reads uninitialised memory; its results differ from run to run.",
    ),
    Known(
        operators=("BIDIRECTIONAL_SEQUENCE_RNN",),
        forms=r".*auxiliary input",
        what="an auxiliary input without weights in batch-major order",
        why="LiteRT passes it to the backward cell only in time-major order.",
    ),
    Known(
        operators=("BIDIRECTIONAL_SEQUENCE_RNN",),
        forms=r"q.*time major",
        what="8-bit weights in time-major order",
        why="LiteRT's results differ from those of its UNIDIRECTIONAL_SEQUENCE_RNN, which are correct.",
    ),
    Known(
        operators=("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
        forms=r"activation 0",
        what="a cell without an activation",
        why="LiteRT uses the candidate state instead of the new state.",
    ),
    Known(
        operators=("SOFTMAX",),
        forms=r"qu8z to another scale",
        what="UINT8 with a result whose scale is not 1/256",
        why="LiteRT ignores the scale of the result; neurald applies it.",
    ),
    Known(
        operators=("QUANTIZE",),
        forms=r"f16 to",
        what="FLOAT16 values",
        why="LiteRT's results are off by one for some values halfway between two integers.",
    ),
)
