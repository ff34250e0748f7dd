"""Measures the machine's peak arithmetic rate with independent multiply-adds in registers."""

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm

#: Enough accumulators to hide an instruction's latency, and few enough for the registers.
_ACCUMULATORS = 12
_STEPS = 200_000
_REPETITIONS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """Multiply-add instruction.

    Attributes:
        operations: its number of operations; a multiplication and an addition count as two.
        vector: the LLVM type of its registers.
        needs: the required processor features, by their LLVM names.
    """

    text: str
    operations: int
    vector: str
    needs: tuple[str, ...]


#: The best first.
INSTRUCTIONS = {
    "float32": (
        Instruction(text="vfmadd231ps", operations=32, vector="<16 x float>", needs=("avx512f",)),
        Instruction(text="vfmadd231ps", operations=16, vector="<8 x float>", needs=("fma", "avx2")),
    ),
    "int8": (
        Instruction(text="vpdpbusd", operations=128, vector="<16 x i32>", needs=("avx512vnni",)),
        Instruction(text="{vex} vpdpbusd", operations=64, vector="<8 x i32>", needs=("avxvnni",)),
    ),
}


def measure_peak(kind: str, cores: Sequence[int]) -> float | None:
    """Returns the rate in 10⁹ operations per second with one thread on each core.

    Returns None if there is no such instruction.

    Args:
        kind: float32 or int8.
        cores: the cores to use.
    """
    features = llvm.get_host_cpu_features()
    chosen = next((i for i in INSTRUCTIONS[kind] if all(features.get(name) for name in i.needs)), None)
    if chosen is None:
        return None
    function, _ = _compiled(chosen)
    rates = [0.0] * len(cores)
    barrier = threading.Barrier(len(cores))

    def run(position: int, core: int) -> None:
        os.sched_setaffinity(0, (core,))
        for _ in range(_REPETITIONS):
            barrier.wait()
            start = time.perf_counter_ns()
            function(_STEPS)
            rate = _STEPS * _ACCUMULATORS * chosen.operations / (time.perf_counter_ns() - start)
            # The best of several: other programs can only slow it down.
            rates[position] = max(rates[position], rate)

    threads = [threading.Thread(target=run, args=each) for each in enumerate(cores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


@cache
def _compiled(instruction: Instruction) -> tuple[Any, Any]:
    """Compiles a function that takes a number of steps.

    Returns it and the engine that owns its code.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_text(instruction)), machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("peak"))
    return function, engine


def _text(instruction: Instruction) -> str:
    """Renders the kernel.

    Each step adds a product to each accumulator, in assembly that compilers keep.
    """
    kind = instruction.vector
    begin = "\n".join(
        f"  %s{n} = phi {kind} [zeroinitializer, %entry], [%t{n}, %loop]" for n in range(_ACCUMULATORS)
    )
    assembly = f'asm sideeffect "{instruction.text} $2, $2, $0", "=v,0,v"'
    body = "\n".join(
        f"  %t{n} = call {kind} {assembly}({kind} %s{n}, {kind} zeroinitializer)"
        for n in range(_ACCUMULATORS)
    )
    return f"""
define void @peak(i64 %steps) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{begin}
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""
