"""Constants in sealed memory: the same values, few memories, and no pool kept alive."""

import gc
import random

import numpy as np
import pytest
from support.daemon.open_files import open_files
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.hal.errors import BadData
from neurald.hal.memory.alignment import ALIGNMENT
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.constants import seal_constants
from neurald.hal.model.graph import Location, Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime, OperandType

pytestmark = pytest.mark.quick

BYTES = OperandType.TENSOR_QUANT8_ASYMM


def model(pools: tuple[Memory, ...], *places: Location, referenced: tuple[Location, ...] = ()) -> Model:
    """Returns a model (not a valid one) with constants at these locations."""

    def graph(locations: tuple[Location, ...]) -> Subgraph:
        operands = [
            Operand(type=BYTES, dimensions=(place.length,), lifetime=Lifetime.CONSTANT_POOL, location=place)
            for place in locations
        ]
        operands.append(Operand(type=BYTES, lifetime=Lifetime.CONSTANT_COPY, value=b"inline"))
        return Subgraph(operands=tuple(operands), operations=(), inputs=(), outputs=())

    return Model(main=graph(places), referenced=(graph(referenced),) if referenced else (), pools=pools)


def check(sealed: Model, original: Model) -> None:
    for graph, expected in zip(
        (sealed.main, *sealed.referenced), (original.main, *original.referenced), strict=True
    ):
        for operand, one in zip(graph.operands, expected.operands, strict=True):
            if one.location is None:
                assert operand is one
                continue
            found, value = sealed.constant(operand), original.constant(one)
            assert found is not None
            assert value is not None
            assert np.array_equal(found, value)
            if operand.location is not None:
                assert operand.location.offset % ALIGNMENT == one.location.offset % ALIGNMENT
    assert all(isinstance(pool, SharedMemory) and pool.readonly for pool in sealed.pools)


def place(pool: int, offset: int, length: int) -> Location:
    return Location(pool=pool, offset=offset, length=length)


@sweep("seed", range(20))
def test_values_stay_the_same(seed: int) -> None:
    rng = random.Random(seed)
    pools = tuple(HostMemory(rng.randbytes(rng.randrange(1, 3000))) for _ in range(rng.randrange(1, 6)))

    def places() -> tuple[Location, ...]:
        found = []
        for _ in range(rng.randrange(6)):
            pool = rng.randrange(len(pools))
            offset = rng.randrange(pools[pool].size)
            found.append(place(pool, offset, rng.randrange(pools[pool].size - offset + 1)))
        return tuple(found)

    for _ in range(4):
        original = model(pools, *places(), referenced=places())
        check(seal_constants(original), original)


def test_many_pools_make_one_memory() -> None:
    pools = tuple(HostMemory(bytes([number % 256]) * (number + 1)) for number in range(2000))
    original = model(pools, *(place(number, 0, number + 1) for number in range(2000)))
    before = open_files()
    sealed = seal_constants(original)
    assert len(sealed.pools) == 1
    wait_until(lambda: len(open_files() - before) <= 2)
    check(sealed, original)


def test_pools_that_are_not_used_are_left_out() -> None:
    pools = (HostMemory(b"unused"), HostMemory(b"used"), HostMemory(b""))
    sealed = seal_constants(model(pools, place(1, 1, 2), place(2, 0, 0)))
    assert [pool.size for pool in sealed.pools] == [3]
    assert sealed.main.operands[1].lifetime is Lifetime.CONSTANT_COPY


def test_a_model_without_constants_needs_no_memory() -> None:
    assert seal_constants(model(())).pools == ()


def test_a_copy_serves_all_models_that_share_a_pool() -> None:
    pool = HostMemory(bytes(range(256)) * 40)
    whole = seal_constants(model((pool,), place(0, 0, 10_000)))
    part = model((HostMemory(b"another"), pool), place(1, 77, 100))
    sealed = seal_constants(part)
    assert sealed.pools == whole.pools
    check(sealed, part)


def test_a_pool_that_can_be_written_is_copied_for_each_model() -> None:
    content = bytearray(b"before")
    pool = HostMemory(content)
    first, second = model((pool,), place(0, 0, 6)), model((pool,), place(0, 0, 6))
    old = seal_constants(first)
    assert seal_constants(first).pools == old.pools
    content[:] = b"after."
    assert bytes(seal_constants(second).pools[0].view()) == b"after."
    assert bytes(old.pools[0].view()) == b"before"


def test_sealed_memory_stays_where_it_is() -> None:
    pool = SharedMemory.constant(memoryview(bytes(100)))
    original = model((pool,), place(0, 3, 50))
    sealed = seal_constants(original)
    assert sealed.pools == (pool,)
    check(sealed, original)


def test_copies_go_with_their_pools() -> None:
    gc.collect()
    before = open_files()
    for _ in range(50):
        pool = HostMemory(bytes(100_000))
        seal_constants(model((pool,), place(0, 0, 100_000)))
    del pool
    gc.collect()
    wait_until(lambda: not open_files() - before)


@sweep("bad", [place(0, 0, 5), place(0, 4, 1), place(1, 0, 1), place(-1, 0, 1), place(0, -1, 2)])
def test_places_that_are_none(bad: Location) -> None:
    with pytest.raises(BadData):
        seal_constants(model((HostMemory(b"1234"),), bad))
