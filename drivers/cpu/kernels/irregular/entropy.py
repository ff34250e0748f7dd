"""Random numbers of the operating system, as seeds of generators."""

import os

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameters
from neurald.drivers.cpu.target.routine import NAME, Routine

#: Numbers of the system call.
_GETRANDOM = {"x86_64": 318, "aarch64": 278, "riscv64": 278, "ppc64le": 359}
_COST_NS = 300.0


def routine(kernel: Kernel) -> Routine:
    """Returns the routine of a kernel that replaces two zeros by random numbers.

    Raises:
        KeyError: the number of the system call is not known for this machine's architecture.
    """
    arguments = arguments_of(kernel)
    number = _GETRANDOM[os.uname().machine]
    text = kernel_text(
        __name__, "entropy.ll", KERNEL=NAME, PARAMETERS=parameters(arguments), GETRANDOM=number
    )
    return Routine(
        text=text,
        arguments=arguments,
        work_items=1,
        cost_ns=_COST_NS,
        declarations=frozenset(("declare i64 @syscall(i64, ...)",)),
        label="random seeds",
        operations=kernel.operations,
    )
