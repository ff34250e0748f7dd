"""Cache artifacts of the CPU device: the executable with its object code, and the constants.

`neurald.drivers.compiler.support.artifact_content` describes their two files.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.compiler.support.artifact_content import artifact_of, content_of
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.target.executable import ROW_COUNT_BYTES, WORD_BYTES, Executable, Instruction, Opcode
from neurald.hal.decoding import from_msgpack
from neurald.hal.device import Artifact
from neurald.hal.errors import BadData
from neurald.hal.model.types import OperandType
from neurald.hal.records import DECODE_ERRORS

if TYPE_CHECKING:
    from neurald.drivers.cpu.target.open_executable import OpenExecutable

_MAGIC = b"ncpu0008"
#: Number of locations of an instruction, by `Opcode`.
_LOCATIONS = (0, 2, 1, 0, 0, 1)
#: Maximum number of loops, each of which has a word in memory.
_MAX_LOOPS = 1 << 20


#: Null in MessagePack.
_NONE = b"\xc0"


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The content of the first file; `opened` is an `OpenExecutable` or null."""

    executable: Executable
    codes: tuple[bytes, ...]
    step_program: bytes
    opened: msgspec.Raw = msgspec.Raw(_NONE)


class ArtifactContents(Struct, frozen=True, kw_only=True):
    """Contents of an artifact.

    Attributes:
        codes: object code of the kernels, for `neurald.drivers.cpu.native.objects.llvm.LoadedCode`.
        step_program: the step program, see
            `neurald.drivers.cpu.native.thread_pool.StepProgram.stored`.
        opened: describes the step if lengths change while it runs; else None.
    """

    executable: Executable
    codes: tuple[bytes, ...]
    step_program: bytes
    constants: memoryview
    opened: "OpenExecutable | None" = None


def write_artifact(native: NativeModel) -> Artifact:
    """Writes an artifact for `read_artifact`."""
    stored = _Stored(
        executable=native.executable,
        codes=native.codes,
        step_program=native.team.program.stored,
        opened=msgspec.Raw(msgspec.msgpack.encode(native.opened)),
    )
    return artifact_of(_MAGIC, stored, native.constants)


def read_artifact(artifact: Artifact) -> ArtifactContents:
    """Reads an artifact. Nothing in it has been made executable yet.

    Raises:
        BadData: it is not an artifact of this driver, or it is inconsistent.
    """
    stored = content_of(artifact, _MAGIC, _Stored, "the CPU driver")
    opened = _decoded_open(stored.opened)
    constants = artifact.data[0].view()
    sets_lengths = opened is not None and bool(opened.sizings)
    check_executable(stored.executable, constants.nbytes, sets_lengths=sets_lengths)
    if opened is not None:
        if not opened.sizings or opened.template != stored.executable:
            raise BadData("the description of changing lengths is not that of the step")
        opened.check()
    return ArtifactContents(
        executable=stored.executable,
        codes=stored.codes,
        step_program=stored.step_program,
        constants=constants,
        opened=opened,
    )


def _decoded_open(content: msgspec.Raw) -> "OpenExecutable | None":
    """Decodes the description of a step whose lengths change; few models have one.

    Raises:
        BadData: it is not such a description.
    """
    if bytes(content) == _NONE:
        return None
    from neurald.drivers.cpu.target.open_executable import OpenExecutable

    try:
        return from_msgpack(content, OpenExecutable)
    except DECODE_ERRORS as error:
        raise BadData(f"the description of changing lengths is damaged: {error}") from None


def check_executable(executable: Executable, constants_bytes: int, *, sets_lengths: bool = False) -> None:
    """Checks that locations are inside their buffers and that argument numbers are valid.

    Args:
        executable: the executable.
        constants_bytes: the size of the constants.
        sets_lengths: whether the executable sets lengths while it runs. The numbers of bytes that
            its instructions copy are then estimates, which nothing uses but costs.

    Raises:
        BadData: a location is outside its buffer, or an argument has no valid number.
    """
    # By `Base`.
    sizes = (executable.arena_bytes, executable.constants_bytes, WORD_BYTES * len(executable.extents), 0, 0)
    if constants_bytes != executable.constants_bytes:
        raise BadData(f"expected {executable.constants_bytes} bytes of constants, got {constants_bytes}")
    if min(executable.arena_bytes, executable.scratch_bytes) < 0:
        raise BadData("a buffer has a negative size")
    executable.calls.check(sizes)
    if not 0 <= executable.loops <= _MAX_LOOPS:
        raise BadData(f"a step has {executable.loops} loops; at most {_MAX_LOOPS} are allowed")
    kernels, end = len(executable.calls), len(executable.instructions)
    for instruction in executable.instructions:
        is_right_call = (
            instruction.opcode is Opcode.CALL
            and not instruction.locations
            and 0 <= instruction.number < kernels
            and 0 <= instruction.target <= end
        )
        if not is_right_call:  # Most are.
            _check_instruction(executable, instruction, sizes, sets_lengths=sets_lengths)
    if executable.banded and executable.instructions:
        raise BadData("a step with instructions has bands")
    for banded in executable.banded:
        calls = executable.calls
        banded.check(calls.work_items, calls.counts, executable.scratch_bytes)
    for port in (*executable.inputs, *executable.outputs):
        port.check(executable.arena_bytes)
    _check_bounded(executable)
    count = len(executable.calls.bases)
    count += sum(len(instruction.locations) for instruction in executable.instructions)
    for ports, arguments in (
        (executable.inputs, executable.input_arguments),
        (executable.outputs, executable.output_arguments),
    ):
        if len(ports) != len(arguments):
            raise BadData(f"expected argument lists for {len(ports)} inputs or outputs, got {len(arguments)}")
        if any(not 0 <= argument < count for each in arguments for argument in each):
            raise BadData(f"an input or output refers to an argument beyond the {count} of the calls")


def _check_instruction(
    executable: Executable, instruction: Instruction, sizes: Sequence[int], *, sets_lengths: bool
) -> None:
    """Checks that an instruction refers to existing kernels, loops, instructions and bytes."""
    opcode, number = instruction.opcode, instruction.number
    accessed = 1
    if opcode is Opcode.COPY:
        accessed = 0 if sets_lengths else number
    problem = ""
    if len(instruction.locations) != _LOCATIONS[opcode]:
        problem = f"has {len(instruction.locations)} locations; {_LOCATIONS[opcode]} are expected"
    elif not 0 <= instruction.target <= len(executable.instructions):
        problem = f"jumps to {instruction.target}; there are {len(executable.instructions)}"
    elif opcode is Opcode.CALL and not 0 <= number < len(executable.calls):
        problem = f"names kernel {number}; there are {len(executable.calls)}"
    elif opcode in (Opcode.ENTER_LOOP, Opcode.TEST_LOOP) and not 0 <= number < executable.loops:
        problem = f"names loop {number}; there are {executable.loops}"
    for location in instruction.locations:
        if number < 0 or not 0 <= location.offset <= sizes[location.base] - accessed:
            problem = problem or f"accesses {accessed} bytes at offset {location.offset}, outside its buffer"
    if opcode is Opcode.COPY and not problem:
        if instruction.locations[0].base is not Base.ARENA:
            problem = "writes to the constants"
        elif instruction.target:
            problem = f"begins at byte {instruction.target} of its target; 0 is expected"
    if problem:
        raise BadData(f"an instruction {opcode.name} {problem}")


def _check_bounded(executable: Executable) -> None:
    """Checks that bounded outputs have rows, and numbers of them."""
    visible = executable.visible_outputs
    for each in executable.bounded:
        if not 0 <= each.output < len(visible) <= each.count < len(executable.outputs):
            raise BadData(f"output {each.output} has the number of its rows in output {each.count}")
        dimensions, number = visible[each.output].dimensions, executable.outputs[each.count]
        if not 0 <= each.dimension < len(dimensions) or number.type != OperandType.TENSOR_INT32:
            raise BadData(f"output {each.output} cannot have rows along dimension {each.dimension}")
        if number.size_bytes != ROW_COUNT_BYTES:
            raise BadData(f"the number of rows of output {each.output} has {number.size_bytes} bytes")
