"""Copies the constants of a model to sealed memory, in which they are sent to a daemon.

The parts of the pools (mapped files, arrays) that hold constants are copied once into memfds that
are sealed against writing, and kept as long as the pools live. Support queries, preparation, and
the preparation of steps on several devices share one copy.
"""

from weakref import ReferenceType, WeakKeyDictionary, ref

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.memory.alignment import ALIGNMENT, align
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.model.graph import Location, Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace


class _Copy(Struct, frozen=True, kw_only=True):
    """Bytes `start` to `end` of a memory, copied to `offset` in `memory`."""

    start: int
    end: int
    memory: SharedMemory
    offset: int
    #: Set if the original is writable: the copy is then valid only for this model.
    model: ReferenceType[Model] | None

    def serves(self, model: Model, start: int, end: int) -> bool:
        return self.start <= start and end <= self.end and (self.model is None or self.model() is model)


_copies: WeakKeyDictionary[Memory, _Copy] = WeakKeyDictionary()
_lock = forkable_lock()


def seal_constants(model: Model) -> Model:
    """Returns the same model with its constants in sealed shared memory.

    Raises:
        BadData: a constant lies outside of its pool.
        OutOfMemory: the copy cannot be allocated.
    """
    with _lock:
        copies = _copies_of(model)
    pools: list[SharedMemory] = []
    numbers: dict[int, int] = {}  # by identity of the memory
    for copy in copies.values():
        if id(copy.memory) not in numbers:
            numbers[id(copy.memory)] = len(pools)
            pools.append(copy.memory)

    def moved(operand: Operand) -> Operand:
        place = operand.location
        if place is None:
            return operand
        if not place.length:  # nothing to lie anywhere
            return replace(operand, lifetime=Lifetime.CONSTANT_COPY, location=None)
        copy = copies[place.pool]
        location = Location(
            pool=numbers[id(copy.memory)],
            offset=place.offset - copy.start + copy.offset,
            length=place.length,
        )
        return replace(operand, location=location)

    def graph(original: Subgraph) -> Subgraph:
        return replace(original, operands=tuple(map(moved, original.operands)))

    return replace(
        model,
        main=graph(model.main),
        referenced=tuple(map(graph, model.referenced)),
        pools=tuple(pools),
    )


def _copies_of(model: Model) -> dict[int, _Copy]:
    """Returns a copy of each used pool, by index; creates the missing ones in one shared memory."""
    copies: dict[int, _Copy] = {}
    missing: dict[int, tuple[int, int]] = {}
    for number, (start, end) in _used_ranges(model).items():
        pool = model.pools[number]
        if isinstance(pool, SharedMemory) and pool.readonly:
            copies[number] = _Copy(start=0, end=pool.size, memory=pool, offset=0, model=None)
            continue
        known = _copies.get(pool)
        if known is not None and known.serves(model, start, end):
            copies[number] = known
            continue
        if known is not None and known.model is None:
            start, end = min(start, known.start), max(end, known.end)
        missing[number] = (start, end)
    if not missing:
        return copies
    memory = SharedMemory.constants([(model.pools[n], s, e - s) for n, (s, e) in missing.items()])
    offset = 0
    for number, (start, end) in missing.items():
        pool = model.pools[number]
        only_for = None if pool.readonly else ref(model)
        copies[number] = _Copy(start=start, end=end, memory=memory, offset=offset, model=only_for)
        _copies[pool] = copies[number]
        offset += align(end - start)
    return copies


def _used_ranges(model: Model) -> dict[int, tuple[int, int]]:
    """Returns for each pool with constants the start and end of the range that they use."""
    ranges: dict[int, tuple[int, int]] = {}
    for graph in (model.main, *model.referenced):
        for index, operand in enumerate(graph.operands):
            place = operand.location
            if place is None or not place.length:
                continue
            if not 0 <= place.pool < len(model.pools):
                raise BadData(f"operand {index}: pool {place.pool}; the model has {len(model.pools)}")
            # Rounded down to the alignment, so that the copies are aligned like the originals.
            start, end = place.offset - place.offset % ALIGNMENT, place.offset + place.length
            known = ranges.get(place.pool, (start, end))
            ranges[place.pool] = min(start, known[0]), max(end, known[1])
    return ranges
