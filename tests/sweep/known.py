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
        why="LiteRT leaves it out without a word; no converter writes it.",
    ),
    Known(
        operators=_ACTIVATED,
        forms=r".*activation 4",
        message="fused activation TANH of a quantised|input of TFLITE_TANH",
        what="the fused activation TANH of quantised and whole numbers",
        why="LiteRT leaves it out without a word; no converter writes it.",
    ),
    Known(
        operators=("RANK", "SHAPE"),
        forms=r"q16z",
        message="needs 0",
        what="an input of INT16 with a zero point, of which nothing but its shape is used",
        why="The shape is known when the file is loaded, so that no operation is left that takes the input.",
    ),
    Known(
        operators=("MAXIMUM", "MINIMUM"),
        forms=r"bool \(",
        message="has type TENSOR_BOOL8",
        what="truth values without any elements",
        why="LiteRT does not look at the type where there is nothing to compute, and refuses it elsewhere.",
    ),
    Known(
        operators=("SELECT",),
        forms=r"f32 (row of|scalar for) \(0, 2\)",
        message="of the condition",
        what="a condition of another rank, without any elements",
        why="LiteRT does not look at shapes where there is nothing to compute.",
    ),
    Known(
        operators=("PRELU",),
        forms=r"q16",
        message="has type TENSOR_QUANT16_SYMM",
        what="slopes of INT16",
        why="LiteRT reads them as INT8, which gives other numbers than those in the file. Slopes of INT8 are supported.",
    ),
    Known(
        operators=("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "DEQUANTIZE", "QUANTIZE"),
        forms=r".*(by channel|by int8)",
        message="has a scale for each channel",
        what="a scale for each channel of what is no constant, or of UINT8",
        why="Weights are scaled by channel when a model is converted, where they are constants of signed bytes.",
    ),
    Known(
        operators=("CONV_2D", "FULLY_CONNECTED"),
        forms=r"hybrid uint8, weights fed",
        message="must be constants",
        what="weights of UINT8 for real data that are no constants",
        why="They are turned into signed bytes when the file is loaded.",
    ),
    Known(
        operators=("CONV_2D", "FULLY_CONNECTED"),
        forms=r"uint8 by int8",
        message="TENSOR_QUANT8_ASYMM_SIGNED",
        what="data of UINT8 with weights of INT8",
        why="LiteRT reads the weights as UINT8, which gives other numbers than those in the file.",
    ),
    Known(
        operators=("BATCH_MATMUL", "FULLY_CONNECTED"),
        forms=r"int8 to int16",
        message="is expected with the types of the other operands",
        what="data of INT8 with a result of INT16",
        why="LiteRT reads or writes another type than the file says; its reference kernel crashes.",
    ),
    Known(
        operators=("BATCH_MATMUL",),
        forms=r"int(8|16) by channel",
        message="TENSOR_QUANT8_SYMM_PER_CHANNEL",
        what="a scale for each channel with data of INT8 or INT16",
        why="LiteRT multiplies everything by 0. Real data with such a constant are supported.",
    ),
    Known(
        operators=("SOFTMAX",),
        forms=r"(f32|q8z|qu8z) to int16",
        message="is expected with the types of the other operands",
        what="a result of INT16 of other data",
        why="LiteRT's kernels do not agree, and no converter writes it.",
    ),
    Known(
        operators=("LOG_SOFTMAX",),
        forms=r".* \(\)$",
        message="",
        what="a scalar",
        why="There is no axis to normalise along.",
    ),
    Known(
        operators=("LSH_PROJECTION",),
        forms=r".*(i64|q8)",
        message="has type",
        what="inputs of INT64 and INT8",
        why="Hashes are those of Android's types; no model has been seen that needs others.",
    ),
    Known(
        operators=("SVDF",),
        forms=r"integers q8",
        message="weights_time",
        what="integers with a state of INT8",
        why="LiteRT computes INT16 states; it does not check that the state is one.",
    ),
    Known(
        operators=("EMBEDDING_LOOKUP",),
        forms=r"q16z? to f32",
        message="with the types of the other operands",
        what="INT16 with a result of real numbers",
        why="LiteRT reads the numbers as bytes.",
    ),
)

_UNWRITTEN = "LiteRT leaves parts of the result as its memory was."

DIFFERENT: tuple[Known, ...] = (
    Known(
        operators=_ACTIVATED,
        forms=r".*activation 4",
        what="the fused activation TANH of real numbers",
        why="LiteRT leaves it out without a word; here it is computed.",
    ),
    Known(
        operators=("CONCATENATION",),
        forms=r"activation [123]",
        what="a fused activation",
        why="LiteRT leaves it out without a word; here it is computed.",
    ),
    Known(
        operators=("ATAN2",),
        forms=r"f32 \(.* by ",
        what="inputs of different shapes",
        why="LiteRT does not broadcast, and gives the result the shape of the first input.",
    ),
    Known(
        operators=("DIV",),
        forms=r"q",
        what="quantised quotients of numbers near the zero point",
        why="LiteRT shifts by more bits than there are where the difference of a dividend from its zero point is 0 or -1.",
    ),
    Known(
        operators=("MATRIX_DIAG", "MATRIX_SET_DIAG"),
        forms=r"(bool|c64|f16|f64|u16|u32|u64|str) ",
        what="types of unusual sizes",
        why=_UNWRITTEN,
    ),
    Known(operators=("FILL",), forms=r"str ", what="strings", why=_UNWRITTEN),
    Known(operators=("TRANSPOSE",), forms=r"\w+ \(\)", what="scalars", why=_UNWRITTEN),
    Known(
        operators=("REDUCE_PROD",),
        forms=r"q8z (\(0, 3\) axes \(0|\(3, 0\) axes \((-1|0, 1))",
        what="quantised products of no numbers",
        why=_UNWRITTEN,
    ),
    Known(
        operators=("AVERAGE_POOL_2D",),
        forms=r"f16 no images",
        what="no images of half precision",
        why="The shape of LiteRT's result is arbitrary.",
    ),
    Known(
        operators=("CONV_2D", "TRANSPOSE_CONV", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"),
        forms=r"float, half weights",
        what="weights of half precision for real data",
        why="LiteRT reads them as if they were of single precision; here they are widened.",
    ),
    Known(
        operators=("CONV_2D", "TRANSPOSE_CONV"),
        forms=r"int16 .*with bias of 32 bits",
        what="INT16 with a bias of INT32",
        why="LiteRT reads the bias as INT64 where it has no faster kernel.",
    ),
    Known(
        operators=("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"),
        forms=r"int8 weights with zero point",
        what="weights of INT8 with a zero point",
        why="LiteRT takes it for 0, which it must be by the specification; here it holds.",
    ),
    Known(
        operators=("CONV_2D",),
        forms=r"hybrid, groups",
        what="groups of channels with weights of INT8 of one scale and real data",
        why="Only XNNPACK computes them, which quantises the data with a zero point; here they are quantised as without groups.",
    ),
    Known(
        operators=("BIDIRECTIONAL_SEQUENCE_LSTM",),
        forms=r".*merged",
        what="merged outputs where batches come first",
        why="From the second batch on LiteRT reads memory that it has not written; its results differ from run to run.",
    ),
    Known(
        operators=("BIDIRECTIONAL_SEQUENCE_RNN",),
        forms=r".*auxiliary input",
        what="an auxiliary input without weights where batches come first",
        why="LiteRT gives it to the backward cell where time comes first only.",
    ),
    Known(
        operators=("BIDIRECTIONAL_SEQUENCE_RNN",),
        forms=r"q.*time major",
        what="weights of 8 bits where time comes first",
        why="LiteRT's results differ from those of UNIDIRECTIONAL_SEQUENCE_RNN, which are right.",
    ),
    Known(
        operators=("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
        forms=r"activation 0",
        what="a cell without an activation",
        why="LiteRT takes the candidate in place of the new state.",
    ),
    Known(
        operators=("SOFTMAX",),
        forms=r"qu8z to another scale",
        what="UINT8 with a result whose scale is not 1/256",
        why="LiteRT does not look at the scale of the result; here it holds.",
    ),
    Known(
        operators=("QUANTIZE",),
        forms=r"f16 to",
        what="real numbers of half precision",
        why="LiteRT's results are one off for some numbers in the middle between two.",
    ),
)
