"""Caches, and entries to put into them."""

from pathlib import Path

from neurald.hal.cache.entry import Origin
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.store import Cache, Loaded, Miss
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.memory.pool import HostMemory

NEEDED = CacheFilesNeeded(model=2, data=1)
ORIGIN = Origin(model="a model", compile_ms=12.5, created_s=1e9)


def entry_parts(device: str = "device", **changes: str) -> KeyParts:
    """What the key of an entry is made of."""
    values = {
        "token": "",
        "graphs": "11",
        "constants": "22",
        "device_version": "1",
        "preference": "LOW_POWER",
        "priority": "LOW",
        "neurald": "0",
    }
    return KeyParts(device=device, threads=None, **(values | changes))


def artifact(content: bytes = b"content", seal: bytes = b"seal") -> Artifact:
    """An artifact with as many memories as `NEEDED` says."""
    return Artifact(
        model=(HostMemory(b"model " + content), HostMemory(b"more " + content)),
        data=(HostMemory(b"data " + content),),
        seal=seal,
    )


def contents(found: Loaded | Miss) -> tuple[bytes, ...] | None:
    """What was loaded, None for a miss."""
    if isinstance(found, Miss):
        return None
    memories = (*found.artifact.model, *found.artifact.data)
    return (*(bytes(memory.view()) for memory in memories), found.artifact.seal)


def stored(directory: Path, parts: KeyParts, content: bytes = b"content") -> Path:
    """The directory of a new entry in a cache."""
    Cache(directory).store(parts, artifact(content), ORIGIN)
    return directory / parts.key().hex()
