"""The cache key of a compiled model: a digest of everything that the compiled result depends on.

Unlike Android's, it includes the model itself with its constants. It excludes names in the model
and the location of constants: two models that a device cannot distinguish have the same key.
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct, structs

from neurald._version import __version__
from neurald.hal.device import Device, PrepareOptions
from neurald.hal.digests import digest_of, hex_digest_of, new_digest
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.model.extension import code_of, declaration_digest, extension_of
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace

_KEY_DOMAIN = b"neurald cache key 2\0"
_TOKEN_DOMAIN = b"neurald cache token 1\0"
_GRAPHS_DOMAIN = b"neurald cache graphs 1\0"
_ATTRIBUTES_DOMAIN = b"neurald cache attributes 1\0"
_VARIANT_DOMAIN = b"neurald cache variant 1\0"
_QUESTION_DOMAIN = b"neurald cache question 2\0"
#: Variant names up to this length are stored in readable form, longer ones as a digest.
_MAX_READABLE_VARIANT = 200


class KeyParts(Struct, frozen=True, kw_only=True):
    """The parts of a key, stored with an entry to explain differences between keys.

    Attributes:
        token: digest of the caller's token; "" without one.
        graphs: digest of the model without the values of its constants.
        variant: name of one of several results compiled from the model, for example one per set of
            input shapes; "" for the model as a whole.
        constants: digest of the values of its constants.
        device: its name, without the location of its daemon on this host.
        neurald: version of this package.
        attributes: digest of the values of extension attributes; "" without any.
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
        """Returns the key, 32 bytes."""
        return digest_of(_KEY_DOMAIN + msgspec.msgpack.encode(structs.astuple(self)))

    def for_variant(self, name: bytes) -> "KeyParts":
        """Returns the parts for a variant of the same model that is compiled later."""
        text = name.decode("ascii", "replace")
        is_readable = text.isascii() and text.isprintable() and 0 < len(text) <= _MAX_READABLE_VARIANT
        return replace(self, variant=text if is_readable else hex_digest_of(_VARIANT_DOMAIN + name))

    def changes_since(self, earlier: "KeyParts") -> tuple[str, ...]:
        """Describes the differences from `earlier`; empty if there are none."""
        changes = []
        for name, phrase in _PHRASES.items():
            before, now = getattr(earlier, name), getattr(self, name)
            if before != now:
                changes.append(phrase.format(before=before, now=now))
        return tuple(changes)


#: The explanation of a difference, by the name of the part; digests are not shown.
_PHRASES = {
    "token": "the caller's token changed",
    "graphs": "the model's operations or operands changed",
    "constants": "the model's constants changed",
    "device": "device changed from {before} to {now}",
    "device_version": "device version changed from {before} to {now}",
    "preference": "preference changed from {before} to {now}",
    "priority": "priority changed from {before} to {now}",
    "threads": "threads changed from {before} to {now}",
    "neurald": "neurald changed from {before} to {now}",
    "attributes": "the values of extension attributes changed",
}


def key_parts(
    model: Model, device: Device, options: PrepareOptions, token: bytes = b"", constants: str | None = None
) -> KeyParts:
    """Computes the parts of the key of `model` on `device`.

    Args:
        model: a valid model. Constants in memory that can still change are read now.
        device: a daemon's device has the same key wherever on its host it is served.
        options: how it is prepared; the deadline does not matter.
        token: the token of the caller.
        constants: the known `KeyParts.constants`; None computes it.
    """
    return KeyParts(
        token=hex_digest_of(_TOKEN_DOMAIN + token) if token else "",
        graphs=graphs_digest(model),
        constants=_constants(model) if constants is None else constants,
        device=getattr(device, "cache_name", device.name),
        device_version=device.version,
        preference=options.preference.name,
        priority=options.priority.name,
        threads=options.threads,
        neurald=__version__,
        attributes=_attributes(options.attributes),
    )


_graphs_digests: WeakKeyDictionary[Model, str] = WeakKeyDictionary()
_graphs_lock = forkable_lock()


def graphs_digest(model: Model) -> str:
    """Returns the `KeyParts.graphs` of a valid model, computed once for each model."""
    with _graphs_lock:
        known = _graphs_digests.get(model)
    if known is None:
        known = hex_digest_of(_GRAPHS_DOMAIN + msgspec.msgpack.encode(_graphs(model)))
        remember_graphs_digest(model, known)
    return known


def remember_graphs_digest(model: Model, digest: str) -> None:
    """Stores what `graphs_digest` returns for a model, if it is known from earlier."""
    with _graphs_lock:
        _graphs_digests[model] = digest


def _attributes(values: Sequence[AttributeValue]) -> str:
    """Returns a digest of attribute values that is independent of their order."""
    if not values:
        return ""
    encoded = sorted((declaration_digest(each.extension), each.code, each.value) for each in values)
    return hex_digest_of(_ATTRIBUTES_DOMAIN + msgspec.msgpack.encode(encoded))


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
        # Artifacts contain messages, which name operations and operands.
        graph.number,
        graph.operation_numbers,
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
    """Returns a process-independent representation of a type."""
    extension = extension_of(kind)
    if extension is None:
        return int(kind)
    return (code_of(kind), *structs.astuple(extension))


class ConstantsInventory(Struct, frozen=True, array_like=True):
    """Identifies a model's constants, apart from the content of files.

    Attributes:
        digest: the digest of the places of the constants that are in files, and of the values of
            all others.
        files: the pools that are these files.
    """

    digest: bytes
    files: tuple[int, ...]


#: The inventories of models, with the files that they name.
_inventories: WeakKeyDictionary[Model, tuple[ConstantsInventory, tuple[Memory, ...]]] = WeakKeyDictionary()


def constants_inventory(model: Model) -> ConstantsInventory:
    """Takes the inventory of a valid model's constants, and reads those that are not in files."""
    said: list[object] = []
    files: set[int] = set()
    for graph in (model.main, *model.referenced):
        for operand in graph.operands:
            if not operand.lifetime.is_constant:
                continue
            place = operand.location
            if place is None:
                said.append(digest_of(operand.value))
            elif isinstance(pool := model.pools[place.pool], FileMemory):
                files.add(place.pool)
                said.append((place.pool, place.offset, place.length))
            else:
                said.append(_pool_digest(pool, place.offset, place.length))
    return ConstantsInventory(digest_of(msgspec.msgpack.encode(said)), tuple(sorted(files)))


def remember_inventory(model: Model, inventory: ConstantsInventory, files: tuple[Memory, ...]) -> None:
    """Stores what `constants_inventory` returns for a model whose other memories never change.

    Args:
        model: the model, whose content is not read.
        inventory: the inventory of its constants.
        files: the pools that `inventory.files` are.
    """
    with _graphs_lock:
        _inventories[model] = inventory, files


def constants_question(model: Model) -> bytes | None:
    """Returns a digest that identifies the model's constants without reading most of them.

    None if they must be read. Models with the same question have the same `KeyParts.constants`.
    Constants in files at rest are identified by the states of the files and the offsets, all others
    by their values.

    Args:
        model: a valid model.
    """
    with _graphs_lock:
        known = _inventories.get(model)
    if known is not None:
        inventory, files = known
    else:
        if not any(isinstance(pool, FileMemory) for pool in model.pools):
            return None
        inventory = constants_inventory(model)
        files = tuple([model.pools[number] for number in inventory.files])
    states = list(map(_state, files))
    if None in states:
        return None
    return digest_of(_QUESTION_DOMAIN + msgspec.msgpack.encode((states, inventory)))


def _state(pool: Memory) -> tuple[object, ...] | None:
    """Returns the state of a file at rest; None for any other memory."""
    state = pool.state() if isinstance(pool, FileMemory) else None
    return None if state is None else structs.astuple(state)


def _constants(model: Model) -> str:
    digest = new_digest()
    for graph in (model.main, *model.referenced):
        for operand in graph.operands:
            if not operand.lifetime.is_constant:
                continue
            place = operand.location
            if place is None:
                digest.update(digest_of(operand.value))
            else:
                digest.update(_pool_digest(model.pools[place.pool], place.offset, place.length))
    return digest.hexdigest()


_digests: WeakKeyDictionary[Memory, dict[tuple[int, int], bytes]] = WeakKeyDictionary()
_lock = forkable_lock()


def _pool_digest(pool: Memory, offset: int, length: int) -> bytes:
    """Returns the digest of bytes of a pool; cached for immutable memory."""
    if not (isinstance(pool, SharedMemory) and pool.readonly):
        return _digest_of(pool, offset, length)
    with _lock:
        known = _digests.setdefault(pool, {})
        found = known.get((offset, length))
    if found is None:
        found = known[offset, length] = _digest_of(pool, offset, length)
    return found


def _digest_of(pool: Memory, offset: int, length: int) -> bytes:
    digest = new_digest()
    for part in pool.parts(offset, length):
        digest.update(part)
    return digest.digest()
