"""Divides candidate kernels into programs that are built in parallel.

Functions dominate the build time. A function that several kernels call (see
`neurald.drivers.opencl.codegen.template`) is built once for each program that contains it, so these
kernels stay together.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from neurald.drivers.opencl.codegen.kernel_source import Source

#: Function that several kernels call, contained in the text of each.
_SHARED = re.compile(r"^#ifndef (\w+)_is_there\n.*?^#endif\n", re.MULTILINE | re.DOTALL)


@dataclass(slots=True)
class _Shard:
    work_bytes: int = 0
    sources: list[int] = field(default_factory=list)


def work_bytes(texts: Iterable[str]) -> int:
    """Returns how many bytes of these texts a compiler processes in one program.

    Functions that texts share occur only once in a program.
    """
    shared: dict[str, int] = {}
    own = 0
    for text in texts:
        rest = len(text)
        for found in _SHARED.finditer(text):
            length = found.end() - found.start()
            shared[found[1]] = length
            rest -= length
        own += rest
    return own + sum(shared.values())


def functions_of(source: Source) -> tuple[str, ...]:
    """Returns the functions that dominate the build time of a source.

    These are the functions that it shares with other sources, or its own one if there are none.
    """
    return tuple(found[1] for found in _SHARED.finditer(source.text)) or (source.name,)


def shards_of(sources: Sequence[Source], min_bytes: int) -> list[tuple[Source, ...]]:
    """Groups the sources such that groups take about equally long to build, the longest first.

    Args:
        sources: the sources, whose texts differ from each other.
        min_bytes: the minimum work of a group, if there is that much in total.
    """
    families: dict[tuple[str, ...], list[int]] = {}
    for position, source in enumerate(sources):
        families.setdefault(functions_of(source), []).append(position)
    sized = [(work_bytes(sources[each].text for each in family), family) for family in families.values()]
    sized.sort(key=lambda pair: -pair[0])
    count = max(1, min(sum(size for size, _ in sized) // max(1, min_bytes), len(sized)))
    shards = [_Shard() for _ in range(count)]
    for size, family in sized:
        least = min(shards, key=lambda shard: shard.work_bytes)
        least.work_bytes += size
        least.sources += family
    shards.sort(key=lambda shard: -shard.work_bytes)
    return [tuple(sources[each] for each in sorted(shard.sources)) for shard in shards if shard.sources]
