"""Sources are divided among programs: each once, evenly, and together with those that share a
function.
"""

import random

from support.opencl.kernels import GRAPHS, kernels
from support.sweeps import sweep

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.tuning.sharding import shards_of, work_bytes
from neurald.hal.records import replace


def shared(number: int, size: int) -> str:
    name = f"neurald_{number}"
    return f"#ifndef {name}_is_there\n#define {name}_is_there\n{'x' * size}\n#endif\n"


def source(text: str) -> Source:
    (kernel,) = kernels(GRAPHS["elementwise"]())
    return replace(render(kernel), code=LazyCode.of(text))


def random_sources(seed: int) -> list[Source]:
    """Returns sources of which some share a function."""
    numbers = random.Random(seed)
    functions = [shared(number, numbers.randrange(100, 2000)) for number in range(numbers.randrange(1, 30))]
    return [
        source(f"{numbers.choice([*functions, ''])}call {position};\n{'y' * numbers.randrange(100)}\n")
        for position in range(numbers.randrange(1, 60))
    ]


def test_shared_functions_count_once() -> None:
    first, second = shared(1, 500), shared(2, 70)
    assert work_bytes([]) == 0
    assert work_bytes(["abc", "abcd"]) == 7
    assert work_bytes([f"{first}ab", f"{first}c{second}"]) == len(first) + len(second) + 3
    assert work_bytes([f"{first}a\n{first}c"]) == len(first) + 3


@sweep("seed", range(8))
def test_every_source_is_in_one_shard(seed: int) -> None:
    sources = random_sources(seed)
    for least in (1, 1000, 5000, 1 << 30):
        shards = shards_of(sources, least)
        assert sorted(each.name for shard in shards for each in shard) == sorted(
            each.name for each in sources
        )
        assert all(shards)
        assert shards == shards_of(sources, least)
        # Nothing is built twice.
        whole = work_bytes(each.text for each in sources)
        sizes = [work_bytes(each.text for each in shard) for shard in shards]
        assert sum(sizes) == whole
        assert sizes == sorted(sizes, reverse=True)
        # They are even, as far as what stays together allows.
        largest = max(work_bytes(each.text for each in family) for family in shards_of(sources, 1))
        assert sizes[0] <= sizes[-1] + largest
        assert len(shards) <= max(1, whole // least)


def test_sources_that_share_a_function_stay_together() -> None:
    sources = [source(f"{shared(number % 3, 1000)}call {number};\n") for number in range(12)]
    shards = shards_of(sources, 1)
    assert [[sources.index(each) for each in shard] for shard in sorted(shards, key=lambda s: s[0].text)] == [
        [0, 3, 6, 9],
        [1, 4, 7, 10],
        [2, 5, 8, 11],
    ]


def test_few_sources_are_one_shard() -> None:
    assert len(shards_of([source("a"), source("b")], 1000)) == 1
    assert shards_of([], 1000) == []
