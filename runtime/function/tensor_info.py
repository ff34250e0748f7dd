"""Describes the inputs and outputs of a model: name, shape, type and quantisation."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.runtime.model.tensor_names import tensor_names


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """Describes an input or an output.

    Attributes:
        name: unique among the inputs or outputs.
        shape: None for each length that is open; None if even the rank is.
        dtype: the data type of its arrays.
        scale: the scale of quantised values; 0.0 if they are not quantised. The real value is
            `scale * (value - zero_point)`.
        zero_point: the zero point of quantised values.
        scales: one for each index along `quantized_dimension`, if there are several.
        quantized_dimension: None unless there are several scales.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: np.dtype[Any]
    scale: float = 0.0
    zero_point: int = 0
    scales: tuple[float, ...] = ()
    quantized_dimension: int | None = None

    @property
    def is_quantized(self) -> bool:
        """True if its integers stand for real numbers, by one scale or several."""
        return bool(self.scale or self.scales) and self.dtype.kind in "iu"

    def __str__(self) -> str:
        if self.shape is None:
            lengths = "of any rank"
        else:
            lengths = "×".join("?" if each is None else str(each) for each in self.shape) or "scalar"
        kind = "string" if self.dtype.hasobject else self.dtype.name
        text = f"{self.name}: {kind} {lengths}"
        if self.scales:
            text += f", {len(self.scales)} scales along dimension {self.quantized_dimension}"
        elif self.is_quantized:
            text += f", {self.scale:g} × (q − {self.zero_point})"
        return text


def inputs_of(model: Model) -> tuple[TensorInfo, ...]:
    """Describes the inputs of a model."""
    return _described(model.input_operands, tensor_names(model, "input"))


def outputs_of(model: Model) -> tuple[TensorInfo, ...]:
    """Describes the outputs of a model."""
    return _described(model.output_operands, tensor_names(model, "output"))


def _described(operands: tuple[Operand, ...], names: tuple[str, ...]) -> tuple[TensorInfo, ...]:
    return tuple(_info(name, operand) for name, operand in zip(names, operands, strict=True))


def _info(name: str, operand: Operand) -> TensorInfo:
    channels = operand.channel_quant
    dimensions = operand.dimensions
    return TensorInfo(
        name=name,
        shape=None if dimensions is None else tuple(length or None for length in dimensions),
        dtype=operand.type.dtype,
        scale=operand.scale if channels is None else 0.0,
        zero_point=operand.zero_point,
        scales=() if channels is None else channels.scales,
        quantized_dimension=None if channels is None else channels.dimension,
    )
