"""The library of the first tier as machine code, which is a part of this package for x86-64.

A machine that has never run this package would run its first models on references until the library
is compiled. `scripts/first_tier_library.py` compiles it beforehand, for each target. An index says
from which sources. Other architectures compile the library. So do all if its sources have changed
since.
"""

import logging
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from neurald.drivers.cpu.target.target import Target
from neurald.hal.cache.sources import sources_digest
from neurald.hal.decoding import from_json
from neurald.hal.digests import hex_digest_of
from neurald.hal.records import DECODE_ERRORS

if TYPE_CHECKING:
    # Only what is compiled has units.
    from neurald.drivers.cpu.native.objects.unit_queue import Unit

_LOG = logging.getLogger(__name__)

#: Lies beside this module: encodes an `Index`.
INDEX: Final = "library.index.json"
MACHINE: Final = "x86_64"
#: Targets with a file of their own, and those that have the same library as another one.
TARGETS: Final = ("avx512vnni", "avx512", "avx2", "generic")
_SAME: Final[Mapping[str, str]] = dict.fromkeys(("amx", "avx512fp16", "avx512vbmi"), "avx512vnni")
#: Reads files of the package, which may be in a zip file.
_LOADER: Final[Any] = __spec__.loader
#: Limit of the size of a library; each has 0.2 MiB.
_MAX_BYTES: Final = 4 << 20


class BuiltFile(msgspec.Struct, frozen=True, kw_only=True):
    """A library of the package, by what it was compiled from and by what it contains.

    Attributes:
        text: the digest of what was compiled.
        content: the digest of the image.
    """

    text: str
    content: str


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the libraries of the package.

    Attributes:
        llvm: the version that compiled them.
        sources: paths, in this package, of what generates and compiles them.
        digest: the digest of these files.
        files: the libraries by target.
    """

    llvm: str
    sources: tuple[str, ...]
    digest: str
    files: dict[str, BuiltFile]


def file_of(target: str) -> str:
    """Returns the name of the file of a target, relative to this module."""
    return f"library.{target}.image"


def _content(file: str) -> bytes:
    """Reads a file beside this module, like `pkgutil.get_data`, which is slow to import."""
    content: bytes = _LOADER.get_data(os.path.join(os.path.dirname(__file__), file))  # noqa: PTH118, PTH120
    return content


def text_digest(units: "Sequence[Unit]") -> str:
    """Returns the digest of what is compiled."""
    return hex_digest_of("\0".join(text for unit in units for text in (unit.name, unit.text)).encode())


def built_library(target: Target) -> bytes | None:
    """Returns the library as an encoded image (see `native.image`); None if it must be compiled."""
    name = _SAME.get(target.name, target.name)
    if target.machine != MACHINE or name not in TARGETS:
        return None
    try:
        index = from_json(_content(INDEX), Index)
        if sources_digest(*index.sources) != index.digest:
            _LOG.info("the kernels of the first tier are compiled, since their sources were changed")
            return None
        inflation = zlib.decompressobj()
        image = inflation.decompress(_content(file_of(name)), _MAX_BYTES)
        if hex_digest_of(image) == index.files[name].content:
            return image
    except (KeyError, OSError, zlib.error, *DECODE_ERRORS) as error:
        _LOG.info("the kernels of the first tier are compiled, since the package's are damaged: %s", error)
    else:
        _LOG.info("the kernels of the first tier are compiled, since the package's are damaged")
    return None
