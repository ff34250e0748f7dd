"""Object code of kernels that models have in common, kept in the cache.

The text of a kernel depends on shapes and algorithms, not on weights. So a model with other
weights, another batch of the same layers, or other options compiles only what is new. All kernels
are in one pack, which a compilation reads once, and writes if it has compiled others.
"""

import logging
import threading
from collections.abc import Mapping
from typing import Final

import msgspec

from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target
from neurald.hal.decoding import from_msgpack
from neurald.hal.device import Artifact, Variants
from neurald.hal.digests import DIGEST_BYTES, digest_of
from neurald.hal.memory.pool import HostMemory
from neurald.hal.records import DECODE_ERRORS

_LOG = logging.getLogger(__name__)

_MAGIC: Final = b"ncpk0001"
#: Maximum size of the pack; the oldest kernels are dropped.
_PACK_BYTES: Final = 8 << 20


class _KeptKernel(msgspec.Struct, frozen=True, array_like=True):
    """Object code, and the digest of the text that it was compiled from."""

    text: bytes
    code: bytes


class KernelStore:
    """The kept kernels of a target. Thread-safe.

    Args:
        variants: where they are kept.
        target: the target of the code.
    """

    def __init__(self, variants: Variants, target: Target) -> None:
        self._variants = variants
        self._name = f"kernels {target.name}".encode()
        self._lock = threading.Lock()
        self._loaded: dict[str, _KeptKernel] | None = None

    def get(self, unit: Unit) -> bytes | None:
        """Returns the object code of a unit with exactly this text, or None."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            found = self._loaded.get(unit.name)
        if found is None or found.text != _digest(unit.text.encode()):
            return None
        return found.code

    def add(self, codes: Mapping[str, bytes], texts: Mapping[str, str]) -> None:
        """Keeps object code. Failures are those of the cache, which reports them.

        Args:
            codes: the codes by name of the unit.
            texts: the texts of the units.
        """
        with self._lock:
            # Others may have added kernels meanwhile.
            pack = self._load()
            for name, code in codes.items():
                pack.pop(name, None)
                pack[name] = _KeptKernel(text=_digest(texts[name].encode()), code=code)
            size = sum(len(each.code) for each in pack.values())
            while size > _PACK_BYTES:
                size -= len(pack.pop(next(iter(pack))).code)
            self._loaded = pack
            content = msgspec.msgpack.encode(pack)
            artifact = Artifact(
                model=(HostMemory(_MAGIC + _digest(content) + content),), data=(HostMemory(b"-"),)
            )
            self._variants.store(self._name, artifact, 0.0)

    def _load(self) -> dict[str, _KeptKernel]:
        artifact = self._variants.load(self._name)
        return {} if artifact is None else _read(artifact)


def _read(artifact: Artifact) -> dict[str, _KeptKernel]:
    """Reads a pack; a damaged one is empty."""
    memory = artifact.model[0].view() if artifact.model else memoryview(b"")
    start = len(_MAGIC) + DIGEST_BYTES
    content = memory[start:]
    if bytes(memory[:start]) != _MAGIC + _digest(content):
        _LOG.info("a pack of kernels is damaged; they are compiled again")
        return {}
    try:
        return from_msgpack(content, dict[str, _KeptKernel])
    except DECODE_ERRORS as error:
        _LOG.info("a pack of kernels cannot be read; they are compiled again: %s", error)
        return {}


def _digest(content: bytes | memoryview) -> bytes:
    return digest_of(content)
