"""Folds constants with compiled kernels, so that results do not depend on the division into steps.

NumPy's exponential and that of kernels differ in the last bit of some results. If NumPy computed
constants, a model's results would depend on how its operations are split into steps. Expressions
whose bits may differ are therefore compiled like a kernel and run once.
"""

import ctypes
import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import (
    Array,
    RequirementFailed,
    evaluate_fused,
    evaluate_node,
    is_reproducible,
)
from neurald.drivers.compiler.ir.graph import Graph, Node
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.row_wise.rows import is_row_by_row
from neurald.drivers.cpu.native.objects.llvm import LoadedCode
from neurald.drivers.cpu.native.objects.object_code import object_codes, routine_unit
from neurald.drivers.cpu.schedule.lookup_tables import use_lookup_tables
from neurald.drivers.cpu.target.routine import ALIGNMENT, Routine
from neurald.drivers.cpu.target.target import Target, runs_here
from neurald.hal.accounting.account import charge, reserve
from neurald.hal.memory.private_memory import aligned_zeros

_LOG = logging.getLogger(__name__)

#: Generates the routine of a kernel.
Generate = Callable[[Kernel, Target], Routine]


class ConstantFolding:
    """Evaluates constant expressions with the code of a target.

    Args:
        target: the target to generate code for. NumPy is used if this machine cannot run its code.
        generate: makes the routine of a kernel.
    """

    def __init__(self, target: Target, generate: Generate) -> None:
        self._target, self._generate = target, generate
        self._runs_here = runs_here(target)

    def node(self, node: Node, arrays: Mapping[Value, Array]) -> Array:
        """Computes a node from its inputs; see `evaluate_node`.

        Raises:
            RequirementFailed: a requirement of the node does not hold.
        """
        if not self._runs_here or not node.output.count or is_reproducible(node):
            return evaluate_node(node, arrays)
        (kernel,) = fuse(
            Graph(inputs=[], outputs=[node.output], nodes=[node]), is_row_wise=is_row_by_row
        ).kernels
        return self._run(kernel, arrays)

    def graph(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        """Computes the outputs of a graph, which is transformed in place.

        Raises:
            RequirementFailed: a requirement of a node does not hold.
        """
        transform(graph, self.node)
        fused = fuse(graph, is_row_wise=is_row_by_row)
        if not self._runs_here:
            return evaluate_fused(fused, inputs)

        def run(kernel: Kernel, arrays: Mapping[Value, Array]) -> Array:
            return self._run(use_lookup_tables(kernel, self._target, self.node), arrays)

        return evaluate_fused(fused, inputs, run)

    def _run(self, kernel: Kernel, arrays: Mapping[Value, Array]) -> Array:
        if not kernel.output.count:
            return np.empty(kernel.output.shape, kernel.output.type.dtype)
        routine = self._generate(kernel, self._target)
        units = (*(routine_unit(each) for each in routine.subroutines), routine_unit(routine))
        code = LoadedCode(object_codes(units, self._target), [routine.name])
        _LOG.debug("%s computes a constant of %d elements", routine.name, kernel.output.count)
        return _called(routine, code.addresses[routine.name], arrays)


def _called(routine: Routine, address: int, arrays: Mapping[Value, Array]) -> Array:
    """Runs the routine at this address and returns its output."""
    output, *inputs = routine.arguments
    what = "a value computed from constants"
    charge(output.size_bytes, what)
    with reserve(sum(value.size_bytes for value in inputs) + routine.scratch_bytes, what):
        return _computed(routine, address, arrays)


def _computed(routine: Routine, address: int, arrays: Mapping[Value, Array]) -> Array:
    output, *inputs = routine.arguments
    memory = [aligned_zeros(output.size_bytes)]
    for value in inputs:
        array = arrays[value] if value.constant is None else value.constant
        stored = np.ascontiguousarray(array, value.type.dtype).reshape(-1).view(np.uint8)
        memory.append(aligned_zeros(len(stored)))
        memory[-1][:] = stored
    status, scratch = ctypes.c_int32(0), aligned_zeros(routine.scratch_bytes + ALIGNMENT)
    pointers = (*(each.ctypes.data for each in (*memory, scratch)), ctypes.addressof(status))
    kinds = (*(ctypes.c_void_p for _ in pointers), ctypes.c_int64, ctypes.c_int64)
    ctypes.CFUNCTYPE(None, *kinds)(address)(*pointers, 0, routine.work_items)
    if status.value:
        raise RequirementFailed("a requirement of a constant expression does not hold")
    return np.asarray(memory[0].view(output.type.dtype).reshape(output.shape))
