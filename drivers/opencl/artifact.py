"""Cache artifacts of the OpenCL device: a step with its program's binary, and the constants.

`neurald.drivers.compiler.support.artifact_content` describes their two files. Constants are laid
out as in their buffer.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.compiler.support.artifact_content import artifact_of, content_of
from neurald.drivers.opencl.codegen.dialect import has_texels
from neurald.drivers.opencl.platform.storage import TEXEL
from neurald.drivers.opencl.runtime.executable import FLAGS, Executable, ImageUse, Improvement, KernelCall
from neurald.hal.device import Artifact
from neurald.hal.errors import BadData

_MAGIC = b"nopencl6"
_INT32 = np.iinfo(np.int32)
#: What writes these files, for messages.
ORIGIN = "the OpenCL driver"


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    executable: Executable
    binary: bytes
    improvement: Improvement | None


def write_artifact(
    executable: Executable, binary: bytes, constants: np.ndarray, improvement: Improvement | None = None
) -> Artifact:
    """Serializes a step in the format that `read_artifact` reads.

    Args:
        executable, binary, constants: the step, the binary of its program, and its constants.
        improvement: what makes it faster, if that is not built yet.
    """
    # Then only profiles use the separate kernels, which can be compiled when a profile is
    # requested.
    text = "" if executable.persistent is None else executable.text
    stored = _Stored(
        executable=msgspec.structs.replace(executable, text=text), binary=binary, improvement=improvement
    )
    return artifact_of(_MAGIC, stored, constants)


def read_artifact(artifact: Artifact) -> tuple[Executable, bytes, np.ndarray, Improvement | None]:
    """Returns the executable, the binary of its program, its constants, and what improves it.

    Raises:
        BadData: the artifact is not from this driver, or its parts are inconsistent.
    """
    stored = content_of(artifact, _MAGIC, _Stored, ORIGIN)
    constants = constants_of(artifact)
    require_places(stored.executable, constants.nbytes)
    improvement = stored.improvement
    if improvement is not None:
        require_places(improvement.executable, constants.nbytes)
        if _ports(improvement.executable) != _ports(stored.executable):
            raise BadData("these cache files are damaged: the parts of a step have other inputs or outputs")
    return stored.executable, stored.binary, constants, improvement


def _ports(executable: Executable) -> tuple[object, ...]:
    return executable.inputs, executable.outputs, executable.arena_bytes


def constants_of(artifact: Artifact) -> np.ndarray:
    """Returns the constants of an artifact."""
    return np.frombuffer(artifact.data[0].view(), np.uint8)


def require_places(executable: Executable, constants_bytes: int) -> None:
    """Raises `BadData` unless every offset lies inside its buffer."""
    sizes = {Base.ARENA: executable.arena_bytes, Base.CONSTANTS: executable.constants_bytes}
    if constants_bytes != executable.constants_bytes:
        raise BadData(
            f"the cache files have {constants_bytes} bytes of constants; expected {executable.constants_bytes}"
        )
    if executable.zeros < 0 or (
        not FLAGS + executable.flags_bytes
        <= executable.zeros_bytes
        <= executable.arena_bytes - executable.zeros
    ):
        raise BadData(f"{executable.zeros_bytes} bytes at {executable.zeros} do not lie inside the arena")
    calls: list[KernelCall] = [*executable.calls]
    if executable.persistent is not None:
        calls.append(executable.persistent)
    for call in calls:
        for place in call.locations:
            if not 0 <= place.offset <= sizes.get(place.base, -1):
                raise BadData(f"an argument of {call.kernel} starts at {place.offset}, outside its buffer")
        for use in call.images:
            _require_image(call, use, sizes)
        if not 0 <= call.status <= len(executable.calls):
            raise BadData(
                f"{call.kernel} has status word {call.status}; the step has {len(executable.calls)} calls"
            )
        if call.workspace is not None and not executable.zeros <= call.workspace <= executable.arena_bytes:
            raise BadData(f"the workspace of {call.kernel} starts at {call.workspace}, outside the arena")
        if call.groups < 0 or call.local_size < 1:
            raise BadData(f"{call.kernel} has {call.groups} work-groups of {call.local_size} work-items")
        for number in (*call.extents, *call.numbers):
            if not _INT32.min <= number <= _INT32.max:
                raise BadData(f"{call.kernel} takes {number}, which does not fit in 32 bits")
    for port in (*executable.inputs, *executable.outputs):
        port.check(executable.arena_bytes)


def _require_image(call: KernelCall, use: ImageUse, sizes: Mapping[Base, int]) -> None:
    """Raises `BadData` unless the argument lies inside its buffer and starts at a texel."""
    if not 0 < use.argument < len(call.locations):
        raise BadData(f"{call.kernel} has no argument {use.argument} that can be an image")
    if not has_texels(use.type):
        raise BadData(f"{call.kernel} reads {use.type.name} through an image")
    place = call.locations[use.argument]
    is_inside = 0 < use.size_bytes <= sizes[place.base] - place.offset
    if not is_inside or place.offset % (TEXEL * use.type.size_bytes):
        raise BadData(
            f"{call.kernel} reads {use.size_bytes} bytes of {use.type.name} at {place.offset} through an image"
        )
