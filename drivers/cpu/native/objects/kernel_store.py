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

from neurald.drivers.compiler.support.artifact_content import artifact_of, content_of
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target
from neurald.hal.device import Artifact, Variants
from neurald.hal.digests import digest_of
from neurald.hal.errors import BadData

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
        if found is None or found.text != digest_of(unit.text.encode()):
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
                pack[name] = _KeptKernel(text=digest_of(texts[name].encode()), code=code)
            size = sum(len(each.code) for each in pack.values())
            while size > _PACK_BYTES:
                size -= len(pack.pop(next(iter(pack))).code)
            self._loaded = pack
            self._variants.store(self._name, artifact_of(_MAGIC, pack), 0.0)

    def _load(self) -> dict[str, _KeptKernel]:
        artifact = self._variants.load(self._name)
        return {} if artifact is None else _read(artifact)


def _read(artifact: Artifact) -> dict[str, _KeptKernel]:
    """Reads a pack; a damaged one is empty."""
    try:
        return content_of(artifact, _MAGIC, dict[str, _KeptKernel], "the pack of kernels")
    except BadData as error:
        _LOG.info("the kernels that models have in common are compiled again: %s", error)
        return {}
