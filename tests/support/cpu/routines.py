"""Small hand-written routines for the CPU driver, and steps that consist of them."""

import threading
from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.objects.object_code import object_codes, routine_unit
from neurald.drivers.cpu.native.thread_pool import Team, process
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.kernel_calls import KernelCall, KernelCalls
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.model.types import OperandType

TARGET = TARGETS["generic"]

_ADD = """
define void @KERNEL_NAME(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) {
entry:
  br label %test
test:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %from = getelementptr i32, ptr %a1, i64 %i
  %to = getelementptr i32, ptr %a0, i64 %i
  %value = load i32, ptr %from
  %sum = add i32 %value, ADDEND
  store i32 %sum, ptr %to
  store i32 %sum, ptr %scratch
  %next = add i64 %i, 1
  br label %test
done:
  ret void
}
"""

_REQUIRE = """
define void @KERNEL_NAME(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) {
  %first = load i32, ptr %a1
  %bad = icmp slt i32 %first, 0
  %code = select i1 %bad, i32 2, i32 0
  store i32 %code, ptr %status
  store i32 %first, ptr %a0
  ret void
}
"""

#: Each work item writes its number. The work item with the number in the second element of the
#: input sets the word at the address in the first element.
_CANCEL = """
define void @KERNEL_NAME(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) {
entry:
  %word = load i64, ptr %a1
  %p.work_item = getelementptr i64, ptr %a1, i64 1
  %work_item = load i64, ptr %p.work_item
  br label %test
test:
  %i = phi i64 [ %begin, %entry ], [ %next, %ran ]
  %more = icmp ult i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %next = add i64 %i, 1
  %to = getelementptr i32, ptr %a0, i64 %i
  %number = trunc i64 %next to i32
  store i32 %number, ptr %to
  %is.it = icmp eq i64 %i, %work_item
  br i1 %is.it, label %cancel, label %ran
cancel:
  %place = inttoptr i64 %word to ptr
  store i64 1, ptr %place
  br label %ran
ran:
  br label %test
done:
  ret void
}
"""

#: Each work item runs for about a millisecond.
_COUNT = """
define void @KERNEL_NAME(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) {
entry:
  %work_items = sub i64 %end, %begin
  %turns = mul i64 %work_items, 2500000
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %turns
  br i1 %more, label %body, label %done
body:
  store volatile i64 %i, ptr %scratch
  %next = add i64 %i, 1
  br label %test
done:
  store i32 1, ptr %a0
  ret void
}
"""


def values(count: int) -> tuple[Value, Value]:
    """Creates an output and an input of `count` INT32 elements."""
    return Value((count,), Scalar.INT32), Value((count,), Scalar.INT32)


def adding(addend: int, count: int, *, cost_ns: float = 0.0) -> Routine:
    """Adds a number to each element; each element is a work item."""
    return Routine(
        text=_ADD.replace("ADDEND", str(addend)),
        arguments=values(count),
        work_items=count,
        cost_ns=cost_ns,
        scratch_bytes=4,
        label="adds",
    )


def requiring(count: int) -> Routine:
    """Copies the first element; the second requirement fails if it is negative."""
    return Routine(text=_REQUIRE, arguments=values(count), work_items=1, cost_ns=0.0)


def cancelling(count: int, *, cost_ns: float = 0.0) -> Routine:
    """Sets a word halfway through its work items; see `_CANCEL`."""
    return Routine(text=_CANCEL, arguments=values(count), work_items=count, cost_ns=cost_ns)


def counting(count: int, *, milliseconds: int) -> Routine:
    """Runs for about `milliseconds` on one thread, in as many work items."""
    return Routine(
        text=_COUNT,
        arguments=values(count),
        work_items=milliseconds,
        cost_ns=milliseconds * 1e6,
        scratch_bytes=8,
    )


def chain(routines: Sequence[Routine]) -> Executable:
    """Creates a step in which each routine reads the output of the previous one."""
    size = max(4, routines[0].arguments[0].size_bytes)
    room = -(-size // 64) * 64
    calls = KernelCalls.of(
        KernelCall(
            function=routine.name,
            locations=(
                BufferLocation(Base.ARENA, room * (number + 1)),
                BufferLocation(Base.ARENA, room * number),
            ),
            work_items=routine.work_items,
            cost_ns=routine.cost_ns,
            messages=("operation 0: first", "operation 0: second"),
            label=routine.label,
            operations=(number,),
        )
        for number, routine in enumerate(routines)
    )

    def port(offset: int) -> Port:
        return Port(
            offset=offset,
            size_bytes=size,
            dimensions=routines[0].arguments[0].shape,
            type=int(OperandType.TENSOR_INT32),
            scale=0.0,
            zero_point=0,
        )

    return Executable(
        target=TARGET.name,
        calls=calls,
        inputs=(port(0),),
        outputs=(port(room * len(calls)),),
        input_arguments=((1,),),
        output_arguments=((2 * len(calls) - 2,),),
        arena_bytes=room * (len(calls) + 1),
        constants_bytes=0,
        scratch_bytes=8,
        unshared_bytes=room * (len(calls) + 1),
        is_tolerant=True,
    )


def codes(routines: Sequence[Routine]) -> list[bytes]:
    """Returns the object code of a chain."""
    units = {routine.name: routine_unit(routine) for routine in routines}
    return object_codes(list(units.values()), TARGET)


def native(routines: Sequence[Routine], *, threads: int = 1) -> NativeModel:
    """Loads a chain into memory."""
    team = Team(process.step_program(TARGET), threads)
    return NativeModel(chain(routines), codes(routines), np.zeros(0, np.uint8), team)


class KeepingBinding(ArgumentBinding):
    """A binding that keeps its memory, which a step would otherwise write to after it was freed."""

    __slots__ = ("_kept",)

    def __init__(self, model: NativeModel, source: np.ndarray, target: np.ndarray) -> None:
        super().__init__(model.executable, [source.ctypes.data], [target.ctypes.data])
        self._kept = source, target


def bound(model: NativeModel, source: np.ndarray, target: np.ndarray) -> ArgumentBinding:
    """Returns the binding of a chain to an input and an output."""
    return KeepingBinding(model, source, target)


def side_by_side(work: Sequence[threading.Thread]) -> None:
    """Starts threads and waits until all have ended."""
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
