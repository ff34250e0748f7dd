"""Cache artifacts of models that were compiled for any lengths of their open dimensions."""

import msgspec
import numpy as np

from neurald.drivers.compiler.support.artifact_content import artifact_of, content_of
from neurald.drivers.cpu.artifact import check_executable
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.hal.device import Artifact

_MAGIC = b"ncpo0001"


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The content of the first file."""

    opened: OpenExecutable
    codes: tuple[bytes, ...]
    step_program: bytes


class OpenArtifact(msgspec.Struct, frozen=True):
    """Contents of an artifact; see `neurald.drivers.cpu.artifact.ArtifactContents`."""

    opened: OpenExecutable
    executable: Executable
    codes: tuple[bytes, ...]
    step_program: bytes
    constants: np.ndarray


def write_open_artifact(native: NativeModel, opened: OpenExecutable) -> Artifact:
    """Writes an artifact for `read_open_artifact`."""
    stored = _Stored(opened=opened, codes=native.codes, step_program=native.team.program.stored)
    return artifact_of(_MAGIC, stored, native.constants)


def read_open_artifact(artifact: Artifact) -> OpenArtifact:
    """Reads an artifact. Nothing in it has been made executable yet.

    Raises:
        BadData: it is not an artifact of an open model of this driver, or it is inconsistent.
    """
    stored = content_of(artifact, _MAGIC, _Stored, "a model of the CPU driver with open dimensions")
    constants = np.frombuffer(artifact.data[0].view(), np.uint8)
    sets_lengths = bool(stored.opened.sizings)
    check_executable(stored.opened.template, constants.nbytes, sets_lengths=sets_lengths)
    stored.opened.check()
    return OpenArtifact(
        opened=stored.opened,
        executable=stored.opened.template,
        codes=stored.codes,
        step_program=stored.step_program,
        constants=constants,
    )
