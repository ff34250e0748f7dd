"""Requests moved to other memory for the time of their execution, on both sides of a socket.

A client puts what a daemon cannot map into shared memory. A daemon in turn gives its device copies of what
the client shares: that memory stays writable for the client while a kernel runs, and a kernel that first
checks an index and then uses it reads it twice. With a copy, what it checked is what it uses. So every
argument in memory that a client can write is copied, whatever its type and size: which values decide about
addresses is the business of each kernel (sorting does it with floats), and a copy costs a small part of
what a call costs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from neurald.hal.device import OutputShape
from neurald.hal.errors import BadData
from neurald.hal.memory import ALIGNMENT, Memory, align
from neurald.hal.types import Model, OperandType, Request, byte_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What `stage` made of a request.

    Attributes:
        original: the request as it was.
        request: the one to run instead.
        arenas: the pools of `request` that arguments were moved to.
    """

    original: Request
    request: Request
    arenas: tuple[Memory, ...]

    def write_back(self, types: Sequence[OperandType], shapes: Sequence[OutputShape]) -> None:
        """Copies outputs that were moved to where the original request wants them, as long as they really are.

        Args:
            types: of all outputs.
            shapes: of all outputs, which all fitted.
        """
        for kind, moved, argument, shape in zip(
            types, self.request.outputs, self.original.outputs, shapes, strict=True
        ):
            if moved.pool is None or argument.pool is None:
                continue
            pool = self.request.pools[moved.pool]
            if pool not in self.arenas:
                continue
            length = argument.length
            if shape.dimensions is not None:
                length = min(length, byte_size(kind, shape.dimensions))
            target = self.original.pools[argument.pool].view(argument.offset, length)
            _copy(pool.view(moved.offset, length), target)


def stage(
    request: Request,
    *,
    stays: Callable[[Memory], bool],
    allocate: Callable[[int], Memory],
    outputs_apart: bool = False,
) -> Staged:
    """Moves arguments to arenas: inputs are copied there, outputs get room. Each is aligned to `ALIGNMENT`.

    Args:
        request: any request; pools that no argument lies in are left out of the new one.
        stays: whether arguments in that memory stay there.
        allocate: makes an arena of at least that many bytes.
        outputs_apart: inputs and outputs get an arena each, not one together.

    Raises:
        BadData: an argument does not lie in its pool, or an output in read-only memory.
    """
    kept: list[Memory] = []
    numbers: dict[int, int] = {}
    moved: dict[bool, list[tuple[int, Memory]]] = {}
    arguments = [*request.inputs, *request.outputs]
    for position, argument in enumerate(arguments):
        if argument.pool is None:
            continue
        is_output = position >= len(request.inputs)
        if not 0 <= argument.pool < len(request.pools):
            raise BadData(f"pool {argument.pool}; the request has {len(request.pools)}")
        pool = request.pools[argument.pool]
        if is_output and pool.readonly:
            raise BadData(f"output {position - len(request.inputs)}: its memory is read-only")
        if not stays(pool):
            moved.setdefault(is_output and outputs_apart, []).append((position, pool))
            continue
        if argument.pool not in numbers:
            numbers[argument.pool] = len(kept)
            kept.append(pool)
        arguments[position] = replace(argument, pool=numbers[argument.pool])
    arenas: list[Memory] = []
    for group in moved.values():
        arena = allocate(max(ALIGNMENT, sum(align(arguments[position].length) for position, _ in group)))
        offset = 0
        for position, pool in group:
            argument = arguments[position]
            if position < len(request.inputs):
                _copy(pool.view(argument.offset, argument.length), arena.view(offset, argument.length))
            arguments[position] = replace(argument, pool=len(kept) + len(arenas), offset=offset)
            offset += align(argument.length)
        arenas.append(arena)
    return Staged(
        original=request,
        request=Request(
            inputs=tuple(arguments[: len(request.inputs)]),
            outputs=tuple(arguments[len(request.inputs) :]),
            pools=(*kept, *arenas),
        ),
        arenas=tuple(arenas),
    )


def output_types(model: Model) -> tuple[OperandType, ...]:
    """The operand types of a model's outputs, for `Staged.write_back`."""
    return tuple(model.main.operands[index].type for index in model.main.outputs)


class Arenas:
    """Arenas that are used again: fresh pages cost more than the copy into them. Thread-safe.

    Args:
        allocate: makes an arena of at least that many bytes.
        kept: how many are kept at most, and only those of at most `kept_bytes`.
    """

    def __init__(self, allocate: Callable[[int], Memory], *, kept: int, kept_bytes: int) -> None:
        self._allocate = allocate
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._free: list[Memory] = []

    def take(self, size_bytes: int) -> Memory:
        """An arena that nobody else has until it is given back."""
        try:
            arena = self._free.pop()
        except IndexError:
            return self._allocate(size_bytes)
        return arena if arena.size >= size_bytes else self._allocate(size_bytes)

    def give_back(self, arenas: Iterable[Memory]) -> None:
        """Takes arenas that nobody uses any more."""
        for arena in arenas:
            if arena.size <= self._kept_bytes and len(self._free) < self._kept:
                self._free.append(arena)


def _copy(source: memoryview, target: memoryview) -> None:
    # NumPy lets other threads run meanwhile.
    np.asarray(target)[...] = np.asarray(source)
