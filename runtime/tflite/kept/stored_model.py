"""Models converted from `.tflite` files as bytes, without the file, which holds most constants.

The outline, which is all that a start of a compiled model needs, is apart from the graphs and from
the memories that the conversion added: those are read when something asks for them.

Only who has the file and trusts the bytes may restore a model: they are not validated.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from msgspec import Struct

from neurald.hal.cache.key import (
    ConstantsInventory,
    constants_inventory,
    graphs_digest,
    remember_graphs_digest,
    remember_inventory,
)
from neurald.hal.decoding import from_msgpack
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.alignment import align
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.graph import Location, Operand, Subgraph
from neurald.hal.model.model import Model, ModelContent, Outline, SignatureNames, StateVariable
from neurald.hal.model.types import FeatureLevel
from neurald.hal.records import DECODE_ERRORS, replace
from neurald.runtime.model.branches import model_of
from neurald.runtime.model.feature_level_slice import levels_of, remember_levels

#: Returns `StoredModel.graphs`, and the joined memories in memory. It may be called several times.
ReadGraphs: TypeAlias = Callable[[], tuple[bytes | memoryview, Memory]]


class _Variable(Struct, frozen=True, array_like=True):
    """A variable: its initial value, or the one element that all of it is equal to."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    value: bytes


class _Outline(Struct, frozen=True, array_like=True):
    """A converted model without its graphs and memories."""

    main: Outline
    variables: tuple[_Variable, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    signatures: dict[str, SignatureNames]
    graphs: str
    constants: ConstantsInventory


class _Graphs(Struct, frozen=True, array_like=True):
    """The graphs of a converted model."""

    main: Subgraph
    referenced: tuple[Subgraph, ...]
    #: The feature levels of the operations of the main graph, and of those that control flow
    #: refers to: a `_Levels`, which is only decoded for devices that are asked what they support.
    levels: msgspec.Raw


_Levels = tuple[tuple[FeatureLevel, ...], ...]


class StoredModel(Struct, frozen=True, kw_only=True):
    """A model as bytes.

    Attributes:
        outline: see the module.
        graphs: all graphs.
        added: the memories that the model has besides the file, joined. Its pages are not in the
            memory of this process.
    """

    outline: bytes
    graphs: bytes
    added: Memory


def stored_model(model: Model) -> StoredModel | None:
    """Returns a model as bytes; None if it has variables that cannot be stored.

    Args:
        model: its first pool is the file.

    Raises:
        OutOfMemory: there is no memory for what the model has besides the file.
    """
    from neurald.hal.execution.reference_support import have_references  # To restore one needs none.

    if any(variable.initial.dtype.hasobject for variable in model.state):
        return None
    starts, added = _joined(model.pools[1:])
    main = _moved(model.main, starts)
    outline = _Outline(
        main=replace(Outline.of(main), has_references=have_references(model)),
        variables=tuple(map(_to_variable, model.state)),
        input_names=model.input_names,
        output_names=model.output_names,
        signatures=dict(model.signatures),
        graphs=graphs_digest(model),
        # That of the restored model, too: the added memories are not files.
        constants=constants_inventory(model),
    )
    graphs = _Graphs(
        main=main,
        referenced=tuple(_moved(graph, starts) for graph in model.referenced),
        levels=msgspec.Raw(
            msgspec.msgpack.encode(
                [tuple(levels_of(model_of(model, number))) for number in range(1 + len(model.referenced))]
            )
        ),
    )
    return StoredModel(
        outline=msgspec.msgpack.encode(outline), graphs=msgspec.msgpack.encode(graphs), added=added
    )


def restored_model(outline: bytes | memoryview, file: Memory, read: ReadGraphs) -> Model | None:
    """Returns a model from what `stored_model` returned; None if it is of another version.

    Args:
        outline: the outline of the model.
        file: the file that the model was converted from.
        read: returns the rest.
    """
    try:
        kept = from_msgpack(outline, _Outline)
    except (ValueError, *DECODE_ERRORS):
        return None
    rest = _Rest(file, read)
    model = Model.read_later(
        kept.main,
        rest.content,
        state=tuple(map(_from_variable, kept.variables)),
        input_names=kept.input_names,
        output_names=kept.output_names,
        signatures=MappingProxyType(kept.signatures),
    )
    remember_levels(model, rest.levels)
    remember_graphs_digest(model, kept.graphs)
    remember_inventory(model, kept.constants, (file,) * len(kept.constants.files))
    return model


class _Rest:
    """The part of a restored model that is read once, when something asks for it.

    Args:
        file: the file that the model was converted from.
        read: returns what is read.
    """

    def __init__(self, file: Memory, read: ReadGraphs) -> None:
        self._file, self._read = file, read
        self._found: tuple[ModelContent, msgspec.Raw] | None = None

    def content(self) -> ModelContent:
        """Returns the graphs and their memories."""
        return self._once()[0]

    def levels(self) -> _Levels:
        """Returns the feature levels of the operations of each graph."""
        return from_msgpack(self._once()[1], _Levels)

    def _once(self) -> tuple[ModelContent, msgspec.Raw]:
        found = self._found
        if found is None:
            encoded, added = self._read()
            try:
                graphs = from_msgpack(encoded, _Graphs)
            except (ValueError, *DECODE_ERRORS):
                raise BadData("the stored graphs of a model are of another version of neurald") from None
            pools = (self._file, added) if added.size else (self._file,)
            content = ModelContent(main=graphs.main, referenced=graphs.referenced, pools=pools)
            found = self._found = content, graphs.levels.copy()
        return found


def _joined(pools: Sequence[Memory]) -> tuple[dict[int, int], Memory]:
    """Joins the memories after the file; returns where each starts, by pool, and all bytes."""
    ranges = [(pool, 0, pool.size) for pool in pools]
    starts = accumulate([align(pool.size) for pool in pools], initial=0)
    joined = SharedMemory.constants(ranges, "neurald model") if any(pool.size for pool in pools) else None
    return dict(zip(range(1, 1 + len(pools)), starts, strict=False)), joined or HostMemory(b"")


def _moved(graph: Subgraph, starts: Mapping[int, int]) -> Subgraph:
    """Returns a graph whose constants outside of the file are in the joined memory, pool 1."""
    if not starts:
        return graph
    return replace(graph, operands=tuple(_moved_operand(operand, starts) for operand in graph.operands))


def _moved_operand(operand: Operand, starts: Mapping[int, int]) -> Operand:
    place = operand.location
    if place is None or place.pool == 0:
        return operand
    moved = Location(pool=1, offset=starts[place.pool] + place.offset, length=place.length)
    return replace(operand, location=moved)


def _to_variable(variable: StateVariable) -> _Variable:
    value = variable.initial
    # Values that are not in the file are one element, broadcast to the shape.
    is_broadcast = value.size > 0 and not any(value.strides)
    stored = value[(0,) * value.ndim] if is_broadcast else value
    return _Variable(
        name=variable.name, dtype=value.dtype.str, shape=value.shape, value=np.asarray(stored).tobytes()
    )


def _from_variable(stored: _Variable) -> StateVariable:
    elements = np.frombuffer(stored.value, np.dtype(stored.dtype))
    value = (
        np.broadcast_to(elements[0], stored.shape) if elements.size == 1 else elements.reshape(stored.shape)
    )
    return StateVariable(name=stored.name, initial=value)
