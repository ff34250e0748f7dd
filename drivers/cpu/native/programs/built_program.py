"""The step program as machine code, which is a part of this package for some architectures.

To compile it takes as long as to compile a small model: some 40 ms. Its code is the same for all
targets of an architecture, so `scripts/native_programs.py` compiles it beforehand. Other
architectures compile it. So do all if its text has changed since.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from neurald.drivers.cpu.target.processor import MACHINE
from neurald.hal.digests import digest_of

#: Lie beside this module, by architecture: `MAGIC`, the digest of the text, and an image (see
#: `image`).
FILES: Final[Mapping[str, str]] = {
    machine: f"step_program.{machine}.image" for machine in ("x86_64", "aarch64")
}
MAGIC: Final = b"nstp0001"
#: Reads files of the package, which may be in a zip file.
_LOADER: Final[Any] = __spec__.loader


def text_digest(text: str) -> bytes:
    """Returns the digest of the text of a step program, for the header of the file."""
    return digest_of(text.encode())


def program_of(digest: bytes) -> bytes | None:
    """Returns the step program of the text with this digest; None if the package has none of it.

    To ask for it by its digest takes a tenth of the time of putting the text together.
    """
    try:
        path = os.path.join(os.path.dirname(__file__), FILES[MACHINE])  # noqa: PTH118, PTH120
        # Like `pkgutil.get_data`, which is slow to import.
        content: bytes = _LOADER.get_data(path)
    except (KeyError, OSError):
        return None
    head = MAGIC + digest
    return content[len(head) :] if content.startswith(head) else None
