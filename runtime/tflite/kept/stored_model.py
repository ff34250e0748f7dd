"""Models converted from `.tflite` files as bytes, without the file, which holds most constants.

Only who has the file and trusts the bytes may restore a model: they are not validated.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct

from neurald.hal.cache.key import (
    ConstantsInventory,
    constants_inventory,
    graphs_digest,
    remember_graphs_digest,
    remember_inventory,
)
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import (
    FeatureLevel,
    Location,
    Model,
    Operand,
    SignatureNames,
    StateVariable,
    Subgraph,
)
from neurald.hal.records import DECODE_ERRORS, replace
from neurald.runtime.model.branches import model_of
from neurald.runtime.model.feature_level_slice import levels_of, remember_levels

#: Added memories start at multiples of this number of bytes, like those of the file.
_ALIGNMENT = 64


class _Variable(Struct, frozen=True, array_like=True):
    """A variable: its initial value, or the one element that all of it is equal to."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    value: bytes


class _Converted(Struct, frozen=True, array_like=True):
    """A converted model without its memories."""

    main: Subgraph
    referenced: tuple[Subgraph, ...]
    variables: tuple[_Variable, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    signatures: dict[str, SignatureNames]
    #: Of the operations of the main graph, and of those that control flow refers to: a
    #: `_Levels`, which is only decoded for devices that are asked what they support.
    levels: msgspec.Raw
    graphs: str
    constants: ConstantsInventory


_Levels = tuple[tuple[FeatureLevel, ...], ...]


def stored_model(model: Model) -> tuple[bytes, bytes] | None:
    """Returns a model as bytes, and the memories that it has besides the file, joined.

    Args:
        model: its first pool is the file.

    Returns:
        None if the model has variables that cannot be stored.
    """
    if any(variable.initial.dtype.hasobject for variable in model.state):
        return None
    starts, added = _joined(model.pools[1:])
    converted = _Converted(
        main=_moved(model.main, starts),
        referenced=tuple(_moved(graph, starts) for graph in model.referenced),
        variables=tuple(map(_to_variable, model.state)),
        input_names=model.input_names,
        output_names=model.output_names,
        signatures=dict(model.signatures),
        levels=msgspec.Raw(
            msgspec.msgpack.encode(
                [tuple(levels_of(model_of(model, number))) for number in range(1 + len(model.referenced))]
            )
        ),
        graphs=graphs_digest(model),
        # That of the restored model, too: the added memories are not files.
        constants=constants_inventory(model),
    )
    return msgspec.msgpack.encode(converted), added


def restored_model(content: bytes | memoryview, file: Memory, added: Memory) -> Model | None:
    """Returns a model from what `stored_model` returned; None if it is of another version.

    Args:
        content: the bytes.
        file: the file that the model was converted from.
        added: the joined memories.
    """
    try:
        converted = msgspec.msgpack.decode(content, type=_Converted)
    except (ValueError, *DECODE_ERRORS):
        return None
    model = Model(
        main=converted.main,
        referenced=converted.referenced,
        pools=(file, added) if added.size else (file,),
        state=tuple(map(_from_variable, converted.variables)),
        input_names=converted.input_names,
        output_names=converted.output_names,
        signatures=MappingProxyType(converted.signatures),
    )
    levels = converted.levels
    remember_levels(model, lambda: msgspec.msgpack.decode(levels, type=_Levels))
    remember_graphs_digest(model, converted.graphs)
    remember_inventory(model, converted.constants)
    return model


def _joined(pools: Sequence[Memory]) -> tuple[dict[int, int], bytes]:
    """Joins the memories after the file; returns where each starts, by pool, and all bytes."""
    starts: dict[int, int] = {}
    content = bytearray()
    for number, pool in enumerate(pools, start=1):
        content += bytes(-len(content) % _ALIGNMENT)
        starts[number] = len(content)
        content += pool.view()
    return starts, bytes(content)


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
