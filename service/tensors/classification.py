"""Finds the best classes in a classifier's outputs, with probabilities and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.quantized import dequantize
from neurald.hal.process.files.bounded_read import read_at_most
from neurald.service.tensors.arrays import Array
from neurald.service.tensors.files import open_regular

#: Operations that do not change scores.
_TRANSPARENT = frozenset(
    (
        OperationType.QUANTIZE,
        OperationType.DEQUANTIZE,
        OperationType.TFLITE_QUANTIZE,
        OperationType.RESHAPE,
        OperationType.SQUEEZE,
        OperationType.EXPAND_DIMS,
    )
)
_MAX_LABEL_FILE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A class with its probability, from 0 to 1, and its label if there are labels."""

    index: int
    probability: float
    label: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScores:
    """The probabilities of all classes.

    Attributes:
        values: one probability per class, from 0 to 1.
        remark: how they were obtained, if that needs an explanation; otherwise empty.
    """

    values: Array
    remark: str = ""


def class_output(outputs: Sequence[Array]) -> int | None:
    """Returns the index of the output that has the scores of classes.

    This is the only output that has several numbers, all of them in its last dimension. Returns
    None if there is no such output, or several.
    """
    fitting = [
        n
        for n, a in enumerate(outputs)
        if a.ndim and a.shape[-1] > 1 and a.size == a.shape[-1] and a.dtype.kind != "O"
    ]
    return fitting[0] if len(fitting) == 1 else None


def real_values(array: Array, operand: Operand) -> Array:
    """Dequantises the values of an operand; returns values that are not quantised unchanged."""
    if is_quantized(operand) and operand.channel_quant is None:
        return np.asarray(dequantize(array, operand))
    return array


def class_scores(model: Model, position: int, output: Array) -> ClassScores:
    """Computes the probabilities of classes from an output.

    The operation that wrote the output determines what its numbers are: SOFTMAX and LOGISTIC write
    probabilities, LOG_SOFTMAX writes their logarithms. After any other operation, numbers from 0 to
    1 with the sum 1 are probabilities, and other numbers are logits, to which softmax is applied.

    Args:
        model: the model.
        position: index of the output.
        output: the values of the output.

    Raises:
        BadData: the output has numbers that are not finite.
    """
    index = model.outputs[position]
    values = np.asarray(real_values(output, model.main.operands[index]), np.float64).reshape(-1)
    if not np.isfinite(values).all():
        raise BadData("the model's scores are not all finite numbers")
    writer = _writer(model, index)
    if writer is OperationType.SOFTMAX:
        return ClassScores(values=values)
    if writer is OperationType.LOGISTIC:
        return ClassScores(
            values=values, remark="each class has an independent probability; they need not sum to 1"
        )
    if writer is OperationType.LOG_SOFTMAX:
        return ClassScores(values=np.exp(values))
    if values.min() >= 0 and values.max() <= 1 and abs(values.sum() - 1) <= 0.02:
        return ClassScores(values=values)
    odds = np.exp(values - values.max())
    return ClassScores(
        values=odds / odds.sum(),
        remark="the scores are taken for logits, which softmax has converted to probabilities",
    )


def _writer(model: Model, index: int) -> OperationType | None:
    by_output = {output: operation for operation in model.main.operations for output in operation.outputs}
    operation = by_output.get(index)
    while operation is not None and operation.type in _TRANSPARENT:
        operation = by_output.get(operation.inputs[0])
    return None if operation is None else operation.type


def read_labels(path: Path) -> list[str]:
    """Returns the lines of a label file, without trailing empty ones.

    Raises:
        BadData: the file is not a regular file, is not UTF-8 text, or has no lines.
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        content = read_at_most(file, _MAX_LABEL_FILE_BYTES)
    if len(content) > _MAX_LABEL_FILE_BYTES:
        raise BadData(f"{path} is too large for a label file (more than {_MAX_LABEL_FILE_BYTES} bytes)")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise BadData(f"{path} is not a label file: it is not UTF-8 text")
    labels = [line.strip() for line in text.split("\n")]
    while labels and not labels[-1]:
        labels.pop()
    if not labels:
        raise BadData(f"{path} is not a label file: it is empty")
    return labels


def align_labels(labels: Sequence[str], classes: int) -> tuple[list[str], str]:
    """Returns a label for each class, and a remark.

    The remark says which labels were added or ignored; it is empty if there were none.

    Raises:
        BadData: there are fewer labels than classes, and not just one for the background is
            missing.
    """
    if len(labels) == classes - 1:
        remark = f"{len(labels)} labels for {classes} classes: class 0 is assumed to be the background"
        return ["background", *labels], remark
    if len(labels) == classes + 1:
        remark = (
            f"{len(labels)} labels for {classes} classes: the first is assumed to be a background class "
            "and is skipped"
        )
        return list(labels[1:]), remark
    if len(labels) < classes:
        raise BadData(f"the label file has {len(labels)} labels; the model has {classes} classes")
    remark = (
        f"{len(labels)} labels for {classes} classes: the last ones are ignored"
        if len(labels) > classes
        else ""
    )
    return list(labels[:classes]), remark


def best(scores: ClassScores, count: int, labels: Sequence[str] | None) -> list[Guess]:
    """Returns the `count` most probable classes, the most probable first.

    Classes with equal probabilities are in the order of their indices.
    """
    order = np.argsort(-scores.values, kind="stable")[:count]
    return [
        Guess(
            index=int(i),
            probability=float(scores.values[i]),
            label=None if labels is None else labels[int(i)],
        )
        for i in order
    ]
