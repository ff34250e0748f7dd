"""Models to measure: networks that are built here, and real models of the data folder."""

import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.model.graph import Operation
from neurald.service.tensors.arrays import input_slots, random_inputs

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from networks import (
    NETWORKS,
    SEQUENCE_NETWORKS,
    onnx_file,
    sequence_onnx_file,
    sequence_tflite_file,
    tflite_file,
)
from support.files.data import MODELS, load_module

_BENCHMARKS = Path(__file__).parents[1]
_FILES = _BENCHMARKS.parent / "build" / "networks"
PRECISIONS = ("fp32", "int8", "uint8", "fp16", "hybrid", "int16x8")
#: Types in which networks are built.
_TYPES = {"fp32": np.float32, "int8": np.int8, "uint8": np.uint8}
#: Network that measures overhead only.
OVERHEAD = "addition"


class Skipped(Exception):
    """A model cannot be measured; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Model to measure.

    Attributes:
        precision: the group for which its ratios are averaged.
        onnx: the same network for an engine that only reads ONNX.
    """

    name: str
    precision: str
    tflite: Path
    onnx: Path | None = None

    def load(self) -> nd.Model:
        """Loads the model; all its shapes are known.

        Raises:
            Skipped: it cannot be read, or a shape is unknown.
        """
        try:
            model = nd.load_tflite(self.tflite)
        except nd.Error as error:
            raise Skipped(str(error)) from None
        for position in (*model.inputs, *model.outputs):
            dimensions = model.main.operands[position].dimensions
            # An unspecified number of images becomes one for all engines.
            if dimensions is None or 0 in dimensions[1:]:
                raise Skipped(f"operand {position} has the shape {dimensions}; a known one is needed")
        return model


def all_cases() -> Iterator[Case]:
    """Yields the networks that are built here, then the real models."""
    folder = _FILES / _version()
    for name, precision in ((n, p) for n in NETWORKS for p in _TYPES if n != OVERHEAD or p == "fp32"):
        yield Case(
            name=f"{name}_{precision}",
            precision="overhead" if name == OVERHEAD else precision,
            tflite=folder / f"{name}_{precision}.tflite",
            onnx=folder / f"{name}_{precision}.onnx",
        )
    for name in SEQUENCE_NETWORKS:
        yield Case(
            name=name,
            precision="sequences, fp32",
            tflite=folder / f"{name}.tflite",
            onnx=folder / f"{name}.onnx",
        )
    for path in sorted((MODELS / "tflite").glob("*.tflite")) if MODELS else ():
        suffix = path.stem.rpartition("_")[2]
        yield Case(name=path.stem, precision=suffix if suffix in PRECISIONS else "other", tflite=path)


def build(cases: Sequence[Case]) -> None:
    """Writes the missing files of networks."""
    missing = [case for case in cases if case.onnx is not None and not case.onnx.exists()]
    for name in NETWORKS:
        wanted = [case for case in missing if case.name in {f"{name}_{type_}" for type_ in _TYPES}]
        network = NETWORKS[name]() if wanted else None
        for case in wanted:
            dtype = _TYPES[case.name.rpartition("_")[2]]
            case.tflite.parent.mkdir(parents=True, exist_ok=True)
            if network is not None and case.onnx is not None:
                case.tflite.write_bytes(tflite_file(network, dtype))
                case.onnx.write_bytes(onnx_file(network, dtype))
    for case in missing:
        if case.name in SEQUENCE_NETWORKS and case.onnx is not None:
            sequence = SEQUENCE_NETWORKS[case.name]()
            case.tflite.parent.mkdir(parents=True, exist_ok=True)
            case.tflite.write_bytes(sequence_tflite_file(sequence))
            case.onnx.write_bytes(sequence_onnx_file(sequence))


def _version() -> str:
    """Returns a digest of the code that writes the files, as their version."""
    digest = hashlib.sha256()
    for path in sorted((_BENCHMARKS / "networks").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def inputs_of(case: Case, model: nd.Model) -> list[np.ndarray[Any, Any]]:
    """Returns the same arrays every time.

    A real model's photograph in the data folder, or random numbers.

    On noise, small differences decide what a trained network recognizes. An unspecified number of
    images is one.
    """
    if MODELS is not None and case.tflite.is_relative_to(MODELS):
        bundle = load_module(MODELS / "golden_io.py").Bundle(str(MODELS))
        for golden in bundle.cases(case.name) if case.name in bundle.models else ():
            if golden.name == "real" and golden.signature is None:
                return list(golden.steps[0].inputs.values())
    return random_inputs(input_slots(model))


def multiplications(model: nd.Model) -> int:
    """Counts the multiplications of convolutions and matrix products, for one image."""
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
    # Depthwise weights are (1, height, width, channels); in others the output channels come first.
    each = math.prod(weights[1:3] if operation.type is kinds.DEPTHWISE_CONV_2D else weights[1:])
    return math.prod(max(1, length) for length in results) * each
