"""Cache artifacts of steps that were compiled for any lengths of their open dimensions."""

import msgspec
import numpy as np

from neurald.drivers.compiler.support.artifact_content import artifact_of, content_of
from neurald.drivers.opencl.artifact import ORIGIN, constants_of, require_places
from neurald.drivers.opencl.runtime.open_executable import OpenExecutable
from neurald.hal.device import Artifact

_MAGIC = b"nclopen2"


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    opened: OpenExecutable
    binary: bytes


def write_open_artifact(opened: OpenExecutable, binary: bytes, constants: np.ndarray) -> Artifact:
    """Serializes a step for any lengths in the format that `read_open_artifact` reads."""
    return artifact_of(_MAGIC, _Stored(opened=opened, binary=binary), constants)


def read_open_artifact(artifact: Artifact) -> tuple[OpenExecutable, bytes, np.ndarray]:
    """Returns the executable for any lengths, the binary of its program, and its constants.

    Raises:
        BadData: the artifact is not of an open model of this driver, or its parts are inconsistent.
    """
    stored = content_of(artifact, _MAGIC, _Stored, ORIGIN)
    constants = constants_of(artifact)
    require_places(stored.opened.template, constants.nbytes)
    stored.opened.check()
    return stored.opened, stored.binary, constants
