"""Random kernels as rendered by the CPU driver."""

import numpy as np
from support.compiler.elementwise import interpreted
from support.compiler.random_kernels import RandomKernel
from support.cpu.native import RUNNABLE, run

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.drivers.cpu.codegen.render import render


def check_rendered(seed: int) -> None:
    """Checks that a random kernel gives NumPy's results, or the status of a failed requirement."""
    made = RandomKernel(seed)
    kernel, target = made.kernel, RUNNABLE[seed % len(RUNNABLE)]
    inputs = {value: made.inputs[value] for value in kernel.inputs}
    routine = render(kernel, target)
    got, status = run(routine, inputs, target, at_start=bool(seed % 2), splits=(1, 2))
    try:
        want = interpreted(kernel, inputs)
    except RequirementFailed:
        assert status == 1
    else:
        assert status == 0
        np.testing.assert_array_equal(got, want)
