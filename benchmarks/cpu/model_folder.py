"""Models of a folder: any `.tflite` files in it, and what a `manifest.json` says about them.

A manifest is beside the folder or in it. All its fields are optional, and others are ignored:

    {"models": [{"file": "tflite/a.tflite", "family": "cnn fp32", "cases": [{
        "seed": 0, "signature": null, "steps": [{
            "inputs": [{"shape": [1, 4], "dtype": "float32", "rule": "uniform", "low": -1, "high":
            1}], "outputs": [{"atol": 1e-6, "rtol": 1e-3, "mean_atol": 1e-6, "compare":
            "all"}]}]}]}]}

`file` is relative to the manifest. The first step of the first case without a signature gives the
inputs, in the model's order: `rule` is uniform (from `low` to `high`), randint (below `high`),
randbool, zeros, arange or const (with a `value`); all draw from one generator with the case's seed.
`outputs` limit the differences from LiteRT, see `agreement.py`. Without such a case, lengths of
open dimensions come from the command line, and values depend on the type.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from agreement import Limits
from model_file import ModelFile, Port, read_model_file

import neurald as nd

Array = np.ndarray[Any, np.dtype[Any]]

_SEED = 0
#: Maximum of random integers of 32 bits and more, which are often indices into short tables.
_MAX_RANDOM_INDEX = 99
#: Maximum size of one input.
_MAX_INPUT_BYTES = 1 << 31


class Unusable(Exception):
    """A model cannot be measured; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenShapes:
    """Lengths of dimensions that a file leaves open.

    Attributes:
        shapes: whole shapes, by the name of the input.
        length: the length of other open dimensions.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    length: int = 1

    def shape_of(self, port: Port) -> tuple[int, ...]:
        """Returns the shape of an input.

        Raises:
            Unusable: the given shape contradicts the declared one.
        """
        shape = self.shapes.get(port.name)
        if shape is None:
            return tuple(length or self.length for length in port.shape)
        if len(shape) != len(port.shape) or any(
            declared not in (0, length) for declared, length in zip(port.shape, shape, strict=True)
        ):
            raise Unusable(
                f"input {port.name!r} has the shape {list(port.shape)} (0 is open), not {list(shape)}"
            )
        return shape


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderModel:
    """A model of a folder.

    Attributes:
        name: its path in the folder, without the suffix.
        family: the group for which ratios are averaged.
        about: what the file contains; None if it is damaged.
        case: the manifest's case of it; None if there is none.
    """

    name: str
    tflite: Path
    family: str
    about: ModelFile | None
    case: Mapping[str, Any] | None = None

    @property
    def onnx(self) -> Path | None:
        """The same model for engines that read ONNX: the file of the same name beside it."""
        path = self.tflite.with_suffix(".onnx")
        return path if path.is_file() else None

    def inputs(self, shapes: OpenShapes) -> list[Array]:
        """Returns the same arrays every time.

        Raises:
            Unusable: an input cannot be made up.
        """
        if self.case is not None:
            random = np.random.default_rng(self.case.get("seed", _SEED))
            return [_by_rule(rule, random) for rule in self.case["steps"][0]["inputs"]]
        if self.about is None:
            raise Unusable("the file is damaged")
        random = np.random.default_rng(_SEED)
        return [_by_type(port, shapes.shape_of(port), random) for port in self.about.inputs]

    def limits(self) -> list[Limits]:
        """Returns the largest differences that count as right, for each output."""
        if self.case is not None and (outputs := self.case["steps"][0].get("outputs")):
            return [Limits.of_manifest(output) for output in outputs]
        if self.about is None:
            return []
        return [Limits.of_output(output, self.about.precision) for output in self.about.outputs]


def folder_models(folder: Path) -> Iterator[FolderModel]:
    """Yields the models of a folder and of the folders in it, by name.

    Raises:
        ValueError: the manifest is not one.
    """
    entries = _manifest(folder)
    for path in sorted(folder.rglob("*.tflite")):
        entry = entries.get(path.resolve(), {})
        try:
            about = read_model_file(path)
        except (nd.Error, OSError):
            about = None
        yield FolderModel(
            name=str(path.relative_to(folder).with_suffix("")),
            tflite=path,
            family=entry.get("family") or (about.family if about is not None else "damaged"),
            about=about,
            case=next((case for case in entry.get("cases", ()) if _is_usable(case)), None),
        )


def _manifest(folder: Path) -> dict[Path, Mapping[str, Any]]:
    """Returns the entries of the manifest by the path of the model."""
    for place in (folder, folder.parent):
        path = place / "manifest.json"
        if path.is_file():
            try:
                models = json.loads(path.read_text(encoding="utf-8"))["models"]
                return {(place / model["file"]).resolve(): model for model in models}
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path} is not a manifest of models: {error!r}") from error
    return {}


def _is_usable(case: Mapping[str, Any]) -> bool:
    """Returns True if a case is for the main graph and has inputs that need no other file."""
    steps = case.get("steps") or [{}]
    rules = [spec.get("rule") for spec in steps[0].get("inputs", ())]
    return case.get("signature") is None and "inputs" in steps[0] and all(rule in _RULES for rule in rules)


_RULES = ("uniform", "randint", "randbool", "zeros", "arange", "const")


def _by_rule(spec: Mapping[str, Any], random: np.random.Generator) -> Array:
    shape, dtype = tuple(spec["shape"]), np.dtype(spec["dtype"])
    rule = spec["rule"]
    if rule == "uniform":
        low, high = np.float32(spec["low"]), np.float32(spec["high"])
        return (low + (high - low) * random.random(shape, dtype=np.float32)).astype(dtype)
    if rule == "randint":
        return np.asarray(random.integers(spec["low"], spec["high"], shape)).astype(dtype)
    if rule == "randbool":
        return random.integers(0, 2, shape).astype(bool)
    if rule == "arange":
        return np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    value = spec["value"] if rule == "const" else np.zeros(shape)
    return np.array(value, dtype).reshape(shape)


def _by_type(port: Port, shape: Sequence[int], random: np.random.Generator) -> Array:
    """Returns floats in [0, 1), all integers of up to 16 bits, wider ones from 0 to 99."""
    if not port.dtype:
        raise Unusable(f"input {port.name!r} has a type for which no values are made up")
    dtype = np.dtype(port.dtype)
    if math.prod(shape) * dtype.itemsize > _MAX_INPUT_BYTES:
        raise Unusable(f"input {port.name!r} of shape {list(shape)} is larger than {_MAX_INPUT_BYTES} bytes")
    if dtype.kind in "fc":
        return random.random(shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind == "S" or dtype.itemsize >= 4:
        return np.asarray(random.integers(0, _MAX_RANDOM_INDEX, shape, endpoint=True)).astype(dtype)
    info = np.iinfo(port.dtype)
    return np.asarray(random.integers(info.min, info.max, shape, endpoint=True)).astype(dtype)
