"""Form of an operator.

A model of one or few operators that determines whether a runtime accepts it.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from support.tflite.builder import TfliteGraph, TfliteModel

Array = np.ndarray[Any, Any]

_DTYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "FLOAT64": np.float64,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT16": np.int16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "BOOL": np.bool_,
    "COMPLEX64": np.complex64,
}
_WORDS = np.array([b"", b"a", b"word", b"longer text"], object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Type and quantisation."""

    type: str
    scale: tuple[float, ...] = ()
    zero: tuple[int, ...] = ()

    @property
    def is_quantized(self) -> bool:
        return bool(self.scale)


def _quantized(type_: str, scale: float, zero: int = 0) -> Kind:
    return Kind(type=type_, scale=(scale,), zero=(zero,))


#: Types and quantisations of forms; `z` marks an unusual zero point.
KINDS: Mapping[str, Kind] = {
    "f32": Kind(type="FLOAT32"),
    "f16": Kind(type="FLOAT16"),
    "f64": Kind(type="FLOAT64"),
    "i64": Kind(type="INT64"),
    "i32": Kind(type="INT32"),
    "i16": Kind(type="INT16"),
    "i8": Kind(type="INT8"),
    "u8": Kind(type="UINT8"),
    "u16": Kind(type="UINT16"),
    "u32": Kind(type="UINT32"),
    "u64": Kind(type="UINT64"),
    "bool": Kind(type="BOOL"),
    "c64": Kind(type="COMPLEX64"),
    "str": Kind(type="STRING"),
    "q8": _quantized("INT8", 0.05),
    "q8z": _quantized("INT8", 0.05, 7),
    "qu8": _quantized("UINT8", 0.05, 128),
    "qu8z": _quantized("UINT8", 0.05, 100),
    "q32": _quantized("INT32", 0.01),
    "q16": _quantized("INT16", 0.002),
    "q16z": _quantized("INT16", 0.002, 40),
}
#: Kinds of floats and of integers without quantisation.
PLAIN = ("f32", "f16", "f64", "i64", "i32", "i16", "i8", "u8", "u16", "u32", "u64", "bool", "c64", "str")
QUANTIZED = ("q8", "q8z", "qu8", "qu8z", "q16", "q16z")
ALL = (*PLAIN, *QUANTIZED)
#: Kinds for arithmetic. LiteRT treats 8-bit integers as quantised with scale 0.
NUMBERS = tuple(kind for kind in ALL if kind not in ("i8", "u8", "i16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Tensor of a form.

    Attributes:
        shape: its lengths.
        kind: its type and quantisation; several scales lie along `axis`.
        value: the fed or stored value; None for random numbers between `low` and `high`, real ones
            for floats, stored ones for other types.
        is_constant: whether the file contains the value.
        signature: lengths with -1 for unspecified ones.
        data: a constant's bytes, if they differ from its value.
    """

    shape: tuple[int, ...]
    kind: Kind
    axis: int = 0
    value: Array | None = None
    low: float | None = None
    high: float | None = None
    is_constant: bool = False
    is_variable: bool = False
    signature: tuple[int, ...] | None = None
    data: bytes | None = None

    def filled(self, rng: np.random.Generator) -> Array:
        """Returns its value."""
        if self.value is not None:
            return self.value
        name = self.kind.type
        if name == "STRING":
            return rng.choice(_WORDS, self.shape)
        dtype = np.dtype(_DTYPES[name])
        if dtype.kind == "b":
            return rng.integers(0, 2, self.shape).astype(dtype)
        if dtype.kind in "fc":
            low, high = (-3.0 if self.low is None else self.low), (3.0 if self.high is None else self.high)
            real = rng.uniform(low, high, self.shape)
            return (real + 1j * rng.uniform(low, high, self.shape) if dtype.kind == "c" else real).astype(
                dtype
            )
        least, most = self._whole_limits()
        return rng.integers(least, most, self.shape, endpoint=True).astype(dtype)

    def _whole_limits(self) -> tuple[int, int]:
        """Returns the limits of random integers."""
        if self.low is not None or self.high is not None:
            return int(self.low or 0), int(100 if self.high is None else self.high)
        dtype: Any = _DTYPES[self.kind.type]
        if self.kind.is_quantized:
            return max(int(np.iinfo(dtype).min), -2000), min(int(np.iinfo(dtype).max), 2000)
        return (0 if np.dtype(dtype).kind == "u" else -9), 9

    def fields(self, data: Any) -> dict[str, Any]:
        """Returns arguments for the builder."""
        return {
            "shape": self.shape,
            "type_": self.kind.type,
            "scale": self.kind.scale,
            "zero_point": self.kind.zero,
            "quantized_dimension": self.axis,
            "shape_signature": self.signature,
            "has_rank": self.shape == () and data is None and self.signature is None,
            "is_variable": self.is_variable,
            "data": data,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Form as a file, with its inputs."""

    content: bytes
    feeds: tuple[Array, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Operator with its tensors.

    Attributes:
        operator: its name in the schema.
        name: distinguishes it from the operator's other forms.
        inputs: None for an omitted one.
        options, values: the kind of options and its fields, spelled as in the schema package.
        calls: adds further subgraphs.
        wrap: adds the operators itself, given the graph, the form and its input tensors, and
            returns the results.
        tolerance: of floats, relative to the largest one.
    """

    operator: str
    name: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    options: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    calls: Callable[[TfliteModel], None] | None = None
    wrap: "Callable[[TfliteGraph, Form, Sequence[int]], Sequence[int]] | None" = None
    tolerance: float = 1e-5

    @property
    def key(self) -> str:
        return f"{self.operator}: {self.name}"

    def case(self, seed: int = 0) -> Case:
        """Returns the file and its inputs; the same for the same seed."""
        rng = np.random.default_rng((seed, zlib.crc32(self.key.encode())))
        file = TfliteModel()
        graph = file.subgraph()
        feeds, fed, indexes = [], [], []
        for position, tensor in enumerate(self.inputs):
            if tensor is None:
                indexes.append(-1)
                continue
            value = None if tensor.is_variable else tensor.filled(rng)
            stored = (value if tensor.data is None else tensor.data) if tensor.is_constant else None
            indexes.append(graph.tensor(**tensor.fields(stored), name=f"in{position}"))
            if value is not None and not tensor.is_constant:
                fed.append(indexes[-1])
                feeds.append(value)
        results = [
            graph.tensor(**tensor.fields(None), name=f"out{n}") for n, tensor in enumerate(self.outputs)
        ]
        if self.wrap is not None:
            results = list(self.wrap(graph, self, [*indexes, *results]))
        else:
            graph.operator(self.operator, indexes, results, self.options, **self.values)
        graph.inputs, graph.outputs = fed, results
        if self.calls is not None:
            self.calls(file)
        return Case(content=file.build(), feeds=tuple(feeds))


def tensor(shape: Sequence[int], kind: str | Kind = "f32", **fields: Any) -> Tensor:
    """Creates a tensor of a kind of `KINDS`."""
    return Tensor(shape=tuple(shape), kind=KINDS[kind] if isinstance(kind, str) else kind, **fields)


def constant(value: Any, kind: str | Kind = "i32", **fields: Any) -> Tensor:
    """Creates a constant of that value."""
    kind = KINDS[kind] if isinstance(kind, str) else kind
    array: Array = np.asarray(value, _DTYPES.get(kind.type, object))
    return Tensor(shape=array.shape, kind=kind, value=array, is_constant=True, **fields)


def fed(value: Any, kind: str | Kind = "i32", **fields: Any) -> Tensor:
    """Creates a tensor that is fed with that value."""
    return replace(constant(value, kind, **fields), is_constant=False)


def rescaled(kind: str | Kind, factor: float = 1.5, shift: int = 3) -> Kind:
    """Returns the kind with another scale and, if the type has one, zero point."""
    found = KINDS[kind] if isinstance(kind, str) else kind
    if not found.is_quantized:
        return found
    zero = found.zero[0] if found.type == "INT16" else found.zero[0] + shift
    return replace(found, scale=(found.scale[0] * factor,), zero=(zero,))


#: Kinds for which constness and declared shapes are varied; others are handled alike.
_VARIED = ("f32", "i32", "i64", "bool", "q8z", "q16")


def varied(kind: str, form: Form) -> Iterator[Form]:
    """Yields the variants of a form of that kind, if the kind is varied."""
    return variants(form) if kind in _VARIED else iter((form,))


def variants(form: Form, *, constants: bool = True, dynamic: bool = True) -> Iterator[Form]:
    """Yields the form with variations of constant inputs and declared shapes."""
    yield form
    places = [
        n for n, t in enumerate(form.inputs) if t is not None and not t.is_constant and not t.is_variable
    ]
    if constants:
        for place in places:
            yield _with_constants(form, (place,), f"constant {place}")
        if len(places) > 1:
            yield _with_constants(form, places, "all constant")
    if dynamic:
        # LiteRT determines the shapes of outputs itself.
        unknown = tuple(replace(t, shape=(), signature=()) for t in form.outputs)
        yield replace(form, name=f"{form.name}, unknown output", outputs=unknown)
        opened = [_opened(t) for t in form.inputs]
        if opened != list(form.inputs):
            outputs = tuple(t for t in (_opened(o) for o in form.outputs) if t is not None)
            yield replace(form, name=f"{form.name}, open lengths", inputs=tuple(opened), outputs=outputs)


def _opened(found: Tensor | None) -> Tensor | None:
    if found is None or found.is_constant or found.is_variable or not found.shape:
        return found
    return replace(found, signature=(-1, *found.shape[1:]))


def _with_constants(form: Form, places: Sequence[int], name: str) -> Form:
    inputs = tuple(
        replace(t, is_constant=True) if t is not None and n in places else t
        for n, t in enumerate(form.inputs)
    )
    return replace(form, name=f"{form.name}, {name}", inputs=inputs)


def simple(
    operator: str,
    name: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    options: str | None = None,
    **values: Any,
) -> Form:
    """Creates a form without special features."""
    return Form(
        operator=operator,
        name=name,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        options=options,
        values=values,
    )
