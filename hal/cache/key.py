"""What a compiled model is cached under: a digest over everything that what is compiled depends on.

Unlike Android's, it covers the model itself, with its constants. Names in the model are left out, and so is where constants
lie: two models that a device cannot tell apart have the same key.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from weakref import WeakKeyDictionary

import msgspec

from neurald._version import __version__
from neurald.hal.device import Device, PrepareOptions
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.model.extension import code_of, extension_of
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.numbering import operand_number, operation_numbers
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Model, Operand, OperandType, Subgraph
from neurald.hal.process.fork import forkable_lock
from neurald.hal.rpc.wire.extension import declaration_digest

_KEY_DOMAIN = b"neurald cache key 2\0"
_TOKEN_DOMAIN = b"neurald cache token 1\0"
_GRAPHS_DOMAIN = b"neurald cache graphs 1\0"
_ATTRIBUTES_DOMAIN = b"neurald cache attributes 1\0"
_VARIANT_DOMAIN = b"neurald cache variant 1\0"
_QUESTION_DOMAIN = b"neurald cache question 1\0"
#: Names of variants are kept as they are up to this length, for people; of longer ones a digest is.
_VARIANT_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyParts:
    """What a key is made of, kept with an entry to tell why another key is another one.

    Attributes:
        token: digest of the caller's token; "" without one.
        graphs: digest of the model without the values of its constants.
        variant: which of the things that are compiled of the model it is, where that is more than one: one for each set of
            input shapes for example; "" for the model as a whole.
        constants: digest of the values of its constants.
        device: its name, without the place of its daemon on this host.
        neurald: version of this package.
        attributes: digest of the values of extensions' attributes; "" without any.
    """

    token: str
    graphs: str
    constants: str
    device: str
    device_version: str
    preference: str
    priority: str
    threads: int | None
    neurald: str
    variant: str = ""
    attributes: str = ""

    def key(self) -> bytes:
        """The 32 bytes that stand for all of it."""
        values = tuple(getattr(self, field.name) for field in fields(self))
        return hashlib.sha256(_KEY_DOMAIN + msgspec.msgpack.encode(values)).digest()

    def for_variant(self, name: bytes) -> "KeyParts":
        """Those of what is compiled of the same model for something that is only known later."""
        text = name.decode("ascii", "replace")
        is_readable = text.isascii() and text.isprintable() and 0 < len(text) <= _VARIANT_SHOWN
        return replace(
            self, variant=text if is_readable else hashlib.sha256(_VARIANT_DOMAIN + name).hexdigest()
        )

    def changes_since(self, earlier: "KeyParts") -> tuple[str, ...]:
        """What is another in these parts than in `earlier`, in words; nothing where they are equal."""
        changes = []
        for name, phrase in _PHRASES.items():
            before, now = getattr(earlier, name), getattr(self, name)
            if before != now:
                changes.append(phrase.format(before=before, now=now))
        return tuple(changes)


#: By name of the part; digests say nothing to people.
_PHRASES = {
    "token": "the caller's token is another",
    "graphs": "the model's operations or operands changed",
    "constants": "the model's constants changed",
    "device": "device changed from {before} to {now}",
    "device_version": "device version changed from {before} to {now}",
    "preference": "preference changed from {before} to {now}",
    "priority": "priority changed from {before} to {now}",
    "threads": "threads changed from {before} to {now}",
    "neurald": "neurald changed from {before} to {now}",
    "attributes": "the values of extensions' attributes are others",
}


def key_parts(
    model: Model, device: Device, options: PrepareOptions, token: bytes = b"", constants: str | None = None
) -> KeyParts:
    """What the key of `model` on `device` is made of.

    Args:
        model: a valid model. Where its constants lie in memory that can still change, they are read now.
        device: a daemon's device has the same key wherever on its host it is served.
        options: how it is to be prepared; the deadline does not matter.
        token: of the caller.
        constants: what `KeyParts.constants` is known to be; None reads them.
    """
    return KeyParts(
        token=hashlib.sha256(_TOKEN_DOMAIN + token).hexdigest() if token else "",
        graphs=hashlib.sha256(_GRAPHS_DOMAIN + msgspec.msgpack.encode(_graphs(model))).hexdigest(),
        constants=_constants(model) if constants is None else constants,
        device=getattr(device, "cache_name", device.name),
        device_version=device.version,
        preference=options.preference.name,
        priority=options.priority.name,
        threads=options.threads,
        neurald=__version__,
        attributes=_attributes(options.attributes),
    )


def _attributes(values: Sequence[AttributeValue]) -> str:
    """A digest of values, in whatever order they were given."""
    if not values:
        return ""
    told = sorted((declaration_digest(each.extension), each.code, each.value) for each in values)
    return hashlib.sha256(_ATTRIBUTES_DOMAIN + msgspec.msgpack.encode(told)).hexdigest()


def _graphs(model: Model) -> tuple[object, ...]:
    return (bool(model.relaxed), tuple(map(_graph, (model.main, *model.referenced))))


def _graph(graph: Subgraph) -> tuple[object, ...]:
    return (
        tuple(map(_operand, graph.operands)),
        tuple(
            (_type(operation.type), tuple(map(int, operation.inputs)), tuple(map(int, operation.outputs)))
            for operation in graph.operations
        ),
        tuple(map(int, graph.inputs)),
        tuple(map(int, graph.outputs)),
        # Artifacts have messages in them, which name operations and operands.
        graph.number,
        operation_numbers(graph),
        tuple(operand_number(graph.operands, index) for index in range(len(graph.operands))),
    )


def _operand(operand: Operand) -> tuple[object, ...]:
    quant, dimensions = operand.channel_quant, operand.dimensions
    return (
        _type(operand.type),
        None if dimensions is None else tuple(map(int, dimensions)),
        float(operand.scale),
        int(operand.zero_point),
        None if quant is None else (int(quant.dimension), tuple(map(float, quant.scales))),
        "constant" if operand.lifetime.is_constant else int(operand.lifetime),
        operand.subgraph,
        operand.extension_data,
    )


def _type(kind: OperationType | OperandType) -> object:
    """What stands for a type in every process."""
    extension = extension_of(kind)
    if extension is None:
        return int(kind)
    return (code_of(kind), *astuple(extension))


def constants_question(model: Model) -> bytes | None:
    """What stands for the values of a model's constants where most of them need not be read; None where they must be.

    Models of one question have the same `KeyParts.constants`. Constants in files that are at rest are told by the files' states
    and their places, all others by their values.

    Args:
        model: a valid model.
    """
    states: dict[int, tuple[object, ...] | None] = {}
    said: list[object] = []
    for graph in (model.main, *model.referenced):
        for operand in graph.operands:
            if not operand.lifetime.is_constant:
                continue
            place = operand.location
            if place is None:
                said.append(hashlib.sha256(operand.value).digest())
                continue
            pool = model.pools[place.pool]
            if place.pool not in states:
                states[place.pool] = _state(pool)
            if states[place.pool] is None:
                said.append(_pool_digest(pool, place.offset, place.length))
            else:
                said.append((place.pool, place.offset, place.length))
    known = {number: state for number, state in states.items() if state is not None}
    if not known:
        return None
    return hashlib.sha256(_QUESTION_DOMAIN + msgspec.msgpack.encode((sorted(known.items()), said))).digest()


def _state(pool: Memory) -> tuple[object, ...] | None:
    """The state of a file at rest; None for any other memory."""
    state = pool.state() if isinstance(pool, FileMemory) else None
    return None if state is None else astuple(state)


def _constants(model: Model) -> str:
    digest = hashlib.sha256()
    for graph in (model.main, *model.referenced):
        for operand in graph.operands:
            if not operand.lifetime.is_constant:
                continue
            place = operand.location
            if place is None:
                digest.update(hashlib.sha256(operand.value).digest())
            else:
                digest.update(_pool_digest(model.pools[place.pool], place.offset, place.length))
    return digest.hexdigest()


_digests: WeakKeyDictionary[Memory, dict[tuple[int, int], bytes]] = WeakKeyDictionary()
_lock = forkable_lock()


def _pool_digest(pool: Memory, offset: int, length: int) -> bytes:
    """The digest of bytes of a pool; of those that nobody can change it is computed once."""
    if not (isinstance(pool, SharedMemory) and pool.readonly):
        return hashlib.sha256(pool.view(offset, length)).digest()
    with _lock:
        known = _digests.setdefault(pool, {})
        found = known.get((offset, length))
    if found is None:
        found = known[offset, length] = hashlib.sha256(pool.view(offset, length)).digest()
    return found
