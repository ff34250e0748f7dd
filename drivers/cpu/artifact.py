"""What the CPU device keeps in a cache: the executable with its object code, and the constants.

Two memories: how to run and the machine code, which decide what is executed, as MessagePack; and the constants, as they lie in
their buffer, which is used in place. The first has a digest, because code that is damaged would end the process, or do worse.
"""

import hashlib
from dataclasses import dataclass

import msgspec
import numpy as np

from neurald.drivers.compiler.memory.buffer_assignment import Base
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.target.executable import Executable
from neurald.hal.device import Artifact
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory

_MAGIC = b"ncpu0002"
_DIGEST_BYTES = 32


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    executable: Executable
    codes: tuple[bytes, ...]
    runtime: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """What an artifact holds.

    Attributes:
        codes: the code of the kernels, as `neurald.drivers.cpu.native.llvm.LoadedCode` takes it.
        runtime: that of the runtime.
    """

    executable: Executable
    codes: tuple[bytes, ...]
    runtime: bytes
    constants: np.ndarray


def write_artifact(native: NativeModel) -> Artifact:
    """What `read_artifact` takes."""
    stored = _Stored(executable=native.executable, codes=native.codes, runtime=native.team.runtime.code)
    content = msgspec.msgpack.encode(stored)
    return Artifact(
        model=(HostMemory(_MAGIC + _digest(content) + content),),
        data=(HostMemory(native.constants),),
    )


def read_artifact(artifact: Artifact) -> Read:
    """What an artifact holds, none of which has become executable yet.

    Raises:
        BadData: it is no artifact of this driver, or its parts contradict each other.
    """
    if len(artifact.model) != 1 or len(artifact.data) != 1:
        raise BadData(
            f"{len(artifact.model)} and {len(artifact.data)} cache files; one of each kind is expected"
        )
    memory = artifact.model[0].view()
    start = len(_MAGIC) + _DIGEST_BYTES
    digest, content = memory[len(_MAGIC) : start], memory[start:]
    if memory[: len(_MAGIC)] != _MAGIC or digest != _digest(content):
        raise BadData("these cache files are not of the CPU driver, or damaged")
    try:
        stored = msgspec.msgpack.decode(content, type=_Stored)
    except msgspec.DecodeError as error:
        raise BadData(f"these cache files are not of the CPU driver: {error}") from None
    constants = np.frombuffer(artifact.data[0].view(), np.uint8)
    _check(stored.executable, constants.nbytes)
    return Read(executable=stored.executable, codes=stored.codes, runtime=stored.runtime, constants=constants)


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _check(executable: Executable, constants_bytes: int) -> None:
    """Every place lies in its buffer, and every argument that is an input or output is there."""
    sizes = {Base.ARENA: executable.arena_bytes, Base.CONSTANTS: executable.constants_bytes}
    if constants_bytes != executable.constants_bytes:
        raise BadData(f"{constants_bytes} bytes of constants; {executable.constants_bytes} are expected")
    if min(executable.arena_bytes, executable.scratch_bytes) < 0:
        raise BadData("a buffer has less than no bytes")
    for call in executable.calls:
        for place in call.places:
            if not 0 <= place.offset <= sizes[place.base]:
                raise BadData(
                    f"an argument of {call.function} begins at {place.offset}, outside of its buffer"
                )
        if call.grains < 0 or not call.places:
            raise BadData(f"{call.function} has {call.grains} grains of {len(call.places)} arguments")
    for port in (*executable.inputs, *executable.outputs):
        port.check(executable.arena_bytes)
    count = sum(len(call.places) for call in executable.calls)
    for ports, arguments in (
        (executable.inputs, executable.input_arguments),
        (executable.outputs, executable.output_arguments),
    ):
        if len(ports) != len(arguments):
            raise BadData(f"{len(arguments)} lists of arguments for {len(ports)} inputs or outputs")
        if any(not 0 <= argument < count for each in arguments for argument in each):
            raise BadData(f"an input or output is an argument that is none of {count}")
