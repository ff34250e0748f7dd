"""Keeps models converted from `.tflite` files in the cache, so that a file is converted only once.

An entry holds the graphs of a model, the values of its variables and the memories that the
conversion added, but not the file, which is mapped. It is found by the state of the file
(`neurald.hal.memory.mapped_file`) and the digest of the sources that convert. Like every entry of
the cache it is authenticated with the installation's secret before anything is read from it: it
holds what this installation has validated.

Without a usable cache, files are converted each time.
"""

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct

from neurald._version import __version__
from neurald.hal.cache.entry import Origin, describe
from neurald.hal.cache.key import KeyParts, graphs_digest, remember_graphs_digest
from neurald.hal.cache.sources import sources_digest
from neurald.hal.cache.store import Cache, Miss, default_directory
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.digests import hex_digest_of
from neurald.hal.errors import Error
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.mapped_file import FileMemory, FileState
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.types import (
    FeatureLevel,
    Location,
    Model,
    Operand,
    SignatureNames,
    StateVariable,
    Subgraph,
)
from neurald.hal.records import replace
from neurald.runtime.model.feature_level_slice import levels_of, remember_levels

#: Folders whose sources affect the conversion.
_SOURCES = ("runtime/tflite", "hal/cache", "hal/model", "hal/operations", "hal/validation")
_FILES = CacheFilesNeeded(model=1, data=1)
#: Added memories start at multiples of this number of bytes, like those of the file.
_ALIGNMENT = 64
#: Models whose added memories have more bytes are converted each time.
_MAX_ADDED_BYTES = 1 << 28


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
    levels: tuple[FeatureLevel, ...]
    graphs: str


class ConvertedFile:
    """The place of a file's converted model in the default cache.

    Args:
        memory: the mapped file.
        signature: the entry point to load, as for `load_tflite`.
    """

    def __init__(self, memory: FileMemory, signature: str | None) -> None:
        self._memory = memory
        self._state = memory.state()
        self._cache: Cache | None = None
        if self._state is not None:
            try:
                self._cache = Cache(default_directory())
            except Error:
                return
            self._parts = _parts(self._state, signature)

    def load(self) -> Model | None:
        """Returns the converted model; None if it is not in the cache."""
        if self._cache is None:
            return None
        found = self._cache.load(self._parts.key(), _FILES)
        if isinstance(found, Miss):
            return None
        try:
            converted = msgspec.msgpack.decode(found.artifact.model[0].view(), type=_Converted)
        except msgspec.DecodeError:
            return None
        added = found.artifact.data[0]
        model = Model(
            main=converted.main,
            referenced=converted.referenced,
            pools=(self._memory, added) if added.size else (self._memory,),
            state=tuple(map(_from_variable, converted.variables)),
            input_names=converted.input_names,
            output_names=converted.output_names,
            signatures=MappingProxyType(converted.signatures),
        )
        remember_levels(model, converted.levels)
        remember_graphs_digest(model, converted.graphs)
        return model

    def store(self, model: Model) -> None:
        """Stores a model that was converted from the file, unless that is not possible."""
        if self._cache is None or sum(pool.size for pool in model.pools[1:]) > _MAX_ADDED_BYTES:
            return
        if any(variable.initial.dtype.hasobject for variable in model.state):
            return
        starts, added = _joined(model.pools[1:])
        converted = _Converted(
            main=_moved(model.main, starts),
            referenced=tuple(_moved(graph, starts) for graph in model.referenced),
            variables=tuple(map(_to_variable, model.state)),
            input_names=model.input_names,
            output_names=model.output_names,
            signatures=dict(model.signatures),
            levels=tuple(levels_of(model)),
            graphs=graphs_digest(model),
        )
        # The model was read from the file in this state if the state is still the same.
        if self._memory.state() != self._state:
            return
        artifact = Artifact(model=(HostMemory(msgspec.msgpack.encode(converted)),), data=(HostMemory(added),))
        origin = Origin(model=describe(model), compile_ms=0.0, created_s=time.time())
        try:
            self._cache.store(self._parts, artifact, origin)
        except Error:
            return  # A cache that is full or cannot be written is no reason to fail.


def _parts(state: FileState, signature: str | None) -> KeyParts:
    content = msgspec.msgpack.encode((msgspec.structs.astuple(state), signature))
    return KeyParts(
        token="",
        graphs=hex_digest_of(b"neurald converted file 1\0" + content),
        constants="",
        device="conversion of .tflite files",
        device_version=f"neurald {__version__}, sources {sources_digest(*_SOURCES)}",
        preference="",
        priority="",
        threads=None,
        neurald=__version__,
    )


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
