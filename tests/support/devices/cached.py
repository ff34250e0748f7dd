"""Caches and their entries."""

from pathlib import Path

from neurald.hal.cache.entry import Origin
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.store import Cache, Loaded, Miss
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.memory.pool import HostMemory

NEEDED = CacheFilesNeeded(model=2, data=1)
ORIGIN = Origin(model="a model", compile_ms=12.5, created_s=1e9)


def entry_parts(device: str = "device", **changes: str) -> KeyParts:
    """Returns the parts of an entry's key."""
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
    """Creates an artifact with the numbers of memories in `NEEDED`."""
    return Artifact(
        model=(HostMemory(b"model " + content), HostMemory(b"more " + content)),
        data=(HostMemory(b"data " + content),),
        seal=seal,
    )


def contents(found: Loaded | Miss) -> tuple[bytes, ...] | None:
    """Returns the loaded contents; None for a miss."""
    if isinstance(found, Miss):
        return None
    memories = (*found.artifact.model, *found.artifact.data)
    return (*(bytes(memory.view()) for memory in memories), found.artifact.seal)


def stored(directory: Path, parts: KeyParts, content: bytes = b"content") -> Path:
    """Stores an entry in a cache; returns its directory."""
    Cache(directory).store(parts, artifact(content), ORIGIN)
    return directory / parts.key().hex()
