"""Requests that are moved to other memory, and their outputs back."""

import random

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.hal.buffers.staging import ArenaPool, stage
from neurald.hal.device import OutputShape
from neurald.hal.errors import BadData
from neurald.hal.memory.alignment import ALIGNMENT
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions, OperandType

BYTES = OperandType.TENSOR_QUANT8_ASYMM


def host(size: int) -> Memory:
    return HostMemory(bytearray(size))


def is_shared(memory: Memory) -> bool:
    return isinstance(memory, SharedMemory)


def content(request: Request, argument: Argument) -> bytes:
    assert argument.pool is not None
    return bytes(request.pools[argument.pool].view(argument.offset, argument.length))


@sweep("apart", [False, True])
@sweep("seed", range(15))
def test_every_argument_arrives_and_comes_back(seed: int, apart: bool) -> None:
    rng = random.Random(seed)
    pools: list[Memory] = []
    for _ in range(rng.randrange(1, 5)):
        size = rng.randrange(300, 2000)
        pools.append(SharedMemory.create(size) if rng.random() < 0.4 else host(size))
        pools[-1].view()[:] = rng.randbytes(size)
    free = [pool.size for pool in pools]

    def argument() -> Argument:
        """Returns an argument that overlaps no other one."""
        pool = rng.randrange(len(pools))
        length = min(rng.choice([0, 1, 63, 64, 65, 200]), free[pool])
        free[pool] -= length
        return Argument(pool=pool, offset=free[pool], length=length, dimensions=(length,))

    inputs = tuple(Argument() if rng.random() < 0.2 else argument() for _ in range(rng.randrange(5)))
    outputs = tuple(argument() for _ in range(rng.randrange(1, 5)))
    request = Request(inputs=inputs, outputs=outputs, pools=tuple(pools))
    staged = stage(request, is_passthrough=is_shared, allocate=host, separate_output_arena=apart)

    assert len(staged.arenas) <= (2 if apart else 1)
    for old, new in zip(inputs, staged.request.inputs, strict=True):
        assert (old.pool is None) == (new.pool is None)
        assert old.dimensions == new.dimensions
        if old.pool is not None:
            assert content(request, old) == content(staged.request, new)
    for old, new in zip((*inputs, *outputs), (*staged.request.inputs, *staged.request.outputs), strict=True):
        if old.pool is not None and new.pool is not None:
            pool = staged.request.pools[new.pool]
            assert (pool in staged.arenas) != is_shared(pools[old.pool])
            if pool in staged.arenas:
                assert new.offset % ALIGNMENT == 0
    if apart:
        numbers = {new.pool for new in staged.request.inputs if new.pool is not None}
        moved = {pool for pool in numbers if staged.request.pools[pool] in staged.arenas}
        assert not moved & {new.pool for new in staged.request.outputs}

    results = [rng.randbytes(output.length) for output in outputs]
    for new, result in zip(staged.request.outputs, results, strict=True):
        assert new.pool is not None
        staged.request.pools[new.pool].view(new.offset, new.length)[:] = result
    shapes = [OutputShape(dimensions=(output.length,)) for output in outputs]
    staged.write_back([BYTES] * len(outputs), shapes)
    for old, result in zip(outputs, results, strict=True):
        assert content(request, old) == result


@sweep(("dimensions", "written"), [((3,), 3), ((0,), 0), ((99,), 8), (None, 8), ((2**32 - 1, 2**32 - 1), 8)])
def test_only_what_an_output_has_is_written(dimensions: Dimensions, written: int) -> None:
    target = bytearray(b"." * 8)
    request = Request(inputs=(), outputs=(Argument(pool=0, length=8),), pools=(HostMemory(target),))
    staged = stage(
        request, is_passthrough=is_shared, allocate=lambda size: HostMemory(bytearray(b"x" * size))
    )
    staged.write_back([BYTES], [OutputShape(dimensions=dimensions)])
    assert target == b"x" * written + b"." * (8 - written)


def test_what_cannot_be_staged() -> None:
    pools = (HostMemory(b"1234"),)
    for request, reason in (
        (Request(inputs=(Argument(pool=1, length=1),), outputs=(), pools=pools), "pool 1"),
        (Request(inputs=(Argument(pool=0, offset=2, length=3),), outputs=(), pools=pools), "offset 2"),
        (Request(inputs=(), outputs=(Argument(pool=0, length=1),), pools=pools), "output 0: .* read-only"),
    ):
        with pytest.raises(BadData, match=reason):
            stage(request, is_passthrough=is_shared, allocate=host)


def test_arrays_of_any_type_can_be_staged() -> None:
    values = np.arange(6, dtype=np.float64).reshape(2, 3)
    frozen = values.copy()
    frozen.flags.writeable = False
    request = Request(
        inputs=(Argument(pool=0, length=48), Argument(pool=1, offset=8, length=8)),
        outputs=(),
        pools=(HostMemory(values), HostMemory(frozen)),
    )
    staged = stage(request, is_passthrough=is_shared, allocate=host)
    assert content(staged.request, staged.request.inputs[0]) == values.tobytes()
    assert content(staged.request, staged.request.inputs[1]) == frozen.tobytes()[8:16]


def test_arenas_are_used_again_if_they_are_large_enough() -> None:
    made: list[int] = []

    def allocate(size: int) -> Memory:
        made.append(size)
        return host(size)

    arenas = ArenaPool(allocate, max_kept=2, max_kept_bytes=1000)
    first = arenas.take(100)
    arenas.give_back([first])
    assert arenas.take(50) is first
    arenas.give_back([first])
    larger = arenas.take(200)
    assert larger is not first
    arenas.give_back([host(1001), larger, host(300), host(400)])
    assert {arenas.take(1).size for _ in range(3)} == {200, 300, 1}
    assert made == [100, 200, 1]
