"""What is measured: networks that are built here, and the real models of the data folder."""

import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.model.types import Operation
from neurald.service.tensors.arrays import input_slots, random_inputs

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from networks import NETWORKS, onnx_file, tflite_file
from support.data import MODELS, load_module

_BENCHMARKS = Path(__file__).parents[1]
_FILES = _BENCHMARKS.parent / "build" / "networks"
PRECISIONS = ("fp32", "int8", "uint8", "fp16", "hybrid", "int16x8")
#: Built in these types.
_TYPES = {"fp32": np.float32, "int8": np.int8, "uint8": np.uint8}
#: The network that is nothing but overhead.
OVERHEAD = "addition"


class Skipped(Exception):
    """A model cannot be measured; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One model.

    Attributes:
        precision: the group that its ratios are averaged in.
        onnx: the same network for an engine that reads nothing else.
    """

    name: str
    precision: str
    tflite: Path
    onnx: Path | None = None

    def load(self) -> nd.Model:
        """The model, whose shapes are all known.

        Raises:
            Skipped: it cannot be read, or a shape is not known.
        """
        try:
            model = nd.load_tflite(self.tflite)
        except nd.Error as error:
            raise Skipped(str(error)) from None
        for position in (*model.inputs, *model.outputs):
            dimensions = model.main.operands[position].dimensions
            # What depends on the number of images only is the same for all engines: they get one.
            if dimensions is None or 0 in dimensions[1:]:
                raise Skipped(f"its operand {position} has no shape of its own: {dimensions}")
        return model


def all_cases() -> Iterator[Case]:
    """Networks that are built here, which are written where they are missing, and then real models."""
    folder = _FILES / _version()
    for name, precision in ((n, p) for n in NETWORKS for p in _TYPES if n != OVERHEAD or p == "fp32"):
        yield Case(
            name=f"{name}_{precision}",
            precision="overhead" if name == OVERHEAD else precision,
            tflite=folder / f"{name}_{precision}.tflite",
            onnx=folder / f"{name}_{precision}.onnx",
        )
    for path in sorted((MODELS / "tflite").glob("*.tflite")) if MODELS else ():
        suffix = path.stem.rpartition("_")[2]
        yield Case(name=path.stem, precision=suffix if suffix in PRECISIONS else "other", tflite=path)


def build(cases: Sequence[Case]) -> None:
    """Writes the files of networks that are not there yet."""
    missing = [case for case in cases if case.onnx is not None and not case.onnx.exists()]
    for name in NETWORKS:
        wanted = [case for case in missing if case.name.startswith(f"{name}_")]
        network = NETWORKS[name]() if wanted else None
        for case in wanted:
            dtype = _TYPES[case.name.rpartition("_")[2]]
            case.tflite.parent.mkdir(parents=True, exist_ok=True)
            if network is not None and case.onnx is not None:
                case.tflite.write_bytes(tflite_file(network, dtype))
                case.onnx.write_bytes(onnx_file(network, dtype))


def _version() -> str:
    """What the files are known by: the code that writes them."""
    digest = hashlib.sha256()
    for path in sorted((_BENCHMARKS / "networks").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def inputs_of(case: Case, model: nd.Model) -> list[np.ndarray[Any, Any]]:
    """The same arrays every time: the photograph that a real model has in the data folder, or random numbers.

    Noise looks like nothing to a trained network, and small differences decide what it takes it for. Where any number of
    images may be given it is one.
    """
    if MODELS is not None and case.tflite.is_relative_to(MODELS):
        bundle = load_module(MODELS / "golden_io.py").Bundle(str(MODELS))
        for golden in bundle.cases(case.name) if case.name in bundle.models else ():
            if golden.name == "real" and golden.signature is None:
                return list(golden.steps[0].inputs.values())
    return random_inputs(input_slots(model))


def multiplications(model: nd.Model) -> int:
    """What its convolutions and matrix products multiply, for one image."""
    return sum(_multiplications(model, operation) for operation in model.main.operations)


def _multiplications(model: nd.Model, operation: Operation) -> int:
    operands = model.main.operands
    kinds = nd.OperationType
    if operation.type not in (
        kinds.CONV_2D,
        kinds.DEPTHWISE_CONV_2D,
        kinds.FULLY_CONNECTED,
        kinds.GROUPED_CONV_2D,
    ):
        return 0
    results = operands[operation.outputs[0]].dimensions
    weights = operands[operation.inputs[1]].dimensions
    if not results or not weights:
        return 0
    # Weights of a depthwise convolution are (1, height, width, channels), others begin with the channels they give.
    each = math.prod(weights[1:3] if operation.type is kinds.DEPTHWISE_CONV_2D else weights[1:])
    return math.prod(max(1, length) for length in results) * each
