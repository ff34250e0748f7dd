"""Examines the processor, the memory and the kernel."""

import os
import platform
from collections.abc import Iterator
from typing import Final

from neurald.drivers.cpu.target.target import TARGETS, runs_here
from neurald.hal.process.memory.machine import descriptors, memory_bytes
from neurald.hal.process.threads.time_slices import SLICE_NS, short_time_slices, time_slice_ns
from neurald.hal.wording import counted
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.sandbox import seccomp
from neurald.service.sandbox.landlock import version
from neurald.service.sandbox.sandbox import LANDLOCK_PARTS

#: Each connection and each mapped memory of a client needs a descriptor.
_FEW_DESCRIPTORS: Final = 4096
_LITTLE_MEMORY_BYTES: Final = 1 << 30
_GIB: Final = 1 << 30


def examine_machine() -> Iterator[Finding]:
    """Yields what matters to neurald of the hardware and the kernel."""
    yield _processor()
    yield _memory()
    yield _descriptors()
    yield _sandbox()
    yield _scheduler()


def _processor() -> Finding:
    target = next(each for each in TARGETS.values() if runs_here(each))
    cores = counted(len(os.sched_getaffinity(0)), "usable core")
    return Finding.judged(
        "processor",
        f"{platform.machine()}, {cores}, code for {target.name}",
        is_right=target.name != "generic",
        severity=Severity.WARNING,
        advice="the CPU device is fast with AVX2 or better; a virtual machine may hide what its host has",
    )


def _memory() -> Finding:
    size = memory_bytes()
    return Finding.judged(
        "memory",
        f"{size / _GIB:.1f} GiB for this process",
        is_right=size >= _LITTLE_MEMORY_BYTES,
        severity=Severity.WARNING,
        advice="raise the limit of the control group or container; compiling large models needs about 1 GiB",
    )


def _descriptors() -> Finding:
    count = descriptors()
    return Finding.judged(
        "descriptors",
        f"up to {count} in a process",
        is_right=count >= _FEW_DESCRIPTORS,
        severity=Severity.WARNING,
        advice=f"raise the hard limit (`ulimit -Hn`, LimitNOFILE= of a unit) to {_FEW_DESCRIPTORS} or more",
    )


def _sandbox() -> Finding:
    supported = version()
    missing = [name for since, name in LANDLOCK_PARTS if supported < since]
    if not seccomp.is_available():
        missing.append("seccomp")
    lacks = f"the kernel does not support {', '.join(missing)}"
    return Finding.judged(
        "sandbox",
        lacks if missing else "the kernel supports all parts",
        is_right=not missing,
        severity=Severity.NOTE,
        advice="drivers run with the other parts (--sandbox auto); all of them need Linux 6.12 with Landlock "
        "and seccomp",
    )


def _scheduler() -> Finding:
    # Older kernels accept what they do not grant.
    with short_time_slices():
        has_short = time_slice_ns() == SLICE_NS
    return Finding.judged(
        "scheduler",
        f"Linux {platform.release()}, {'with' if has_short else 'without'} short time slices",
        is_right=has_short,
        severity=Severity.NOTE,
        advice="since Linux 6.12 drivers answer sooner while executions of others use all cores",
    )
