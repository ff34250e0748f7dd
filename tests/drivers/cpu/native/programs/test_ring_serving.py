"""Native code waits for submissions; what it does with them is tested with rings."""

import ctypes
import socket

import pytest

from neurald.drivers.cpu.native.objects.llvm import LoadedCode, TargetMachine
from neurald.drivers.cpu.native.programs.step_program import step_program_text
from neurald.drivers.cpu.target.target import host_target
from neurald.drivers.settings import Settings
from neurald.hal.admission.executions.native_gate import GatePlace, NativeGate, NativeShare
from neurald.hal.crashes.breadcrumbs import Breadcrumbs
from neurald.hal.execution.native_serving import PYTHON, RING_FUNCTIONS
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.server.native_ring import NativeRing
from neurald.hal.rpc.transport.ring_end import RING_BYTES, STORES_IN_ORDER, RingEnd, RingSide
from neurald.hal.rpc.transport.ring_layout import SUBMISSION, WORD_BYTES
from neurald.hal.sync.cancellation import Cancellation

pytestmark = pytest.mark.skipif(not STORES_IN_ORDER, reason="native code serves no rings on this machine")

POLL = "declare i32 @poll(ptr, i64, i32)"


def test_a_number_that_becomes_visible_after_the_flag_ends_the_sleep() -> None:
    """The processor may keep a client's store back until it has read that nobody sleeps."""
    memory, waited_ms = SharedMemory.create(RING_BYTES), ctypes.c_int32()
    text = step_program_text()
    assert text.count(POLL) == 1
    # The number becomes visible during the first system call, and no packet comes.
    poll = f"""
define internal i32 @poll(ptr %polled, i64 %count, i32 %limit) {{
  %p.waited = inttoptr i64 {ctypes.addressof(waited_ms)} to ptr
  %before = load i32, ptr %p.waited
  %after = add i32 %before, %limit
  store i32 %after, ptr %p.waited
  %p.number = inttoptr i64 {memory.address + WORD_BYTES * SUBMISSION[0]} to ptr
  store atomic i32 1, ptr %p.number release, align 4
  ret i32 0
}}
"""
    target = host_target(Settings("NEURALD_CPU_", environment={}))
    code = TargetMachine.of(target).object_code(text.replace(POLL, poll))
    loaded = LoadedCode((code,), RING_FUNCTIONS)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ring = NativeRing(
            loaded.addresses,
            RingEnd(memory, theirs, RingSide.DAEMON),
            theirs,
            Cancellation(),
            Breadcrumbs.private().slot(),
            GatePlace(gate=NativeGate(1, {}), user=NativeShare(), client=NativeShare()),
        )
        assert ring.serve() == PYTHON, "it has arrived, and no call is known"
    assert waited_ms.value == 0
