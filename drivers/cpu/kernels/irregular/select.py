"""Kernels of procedures, by their algorithm."""

from neurald.drivers.compiler.ir.algorithm import (
    CombinedRows,
    Distinct,
    Entropy,
    GreedySelection,
    HashSums,
    KeySearch,
    Positions,
    RescaledProduct,
    RunningSum,
    Sampling,
    Scatter,
    SoftSelection,
    StringEquality,
    StringSearch,
)
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.kernels.irregular import (
    combined_rows,
    draw,
    entropy,
    hashes,
    products,
    running_sums,
    scatter,
    search,
    soft_selection,
    strings,
    suppression,
)
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target


def procedure_routine(kernel: Kernel, node: Procedure, target: Target) -> Routine:
    """Returns the routine of a procedure's kernel, whose output is not empty."""
    algorithm = node.algorithm
    if isinstance(algorithm, Scatter):
        return scatter.routine(kernel, node, algorithm, target)
    if isinstance(algorithm, Positions):
        return search.positions(kernel, node, algorithm)
    if isinstance(algorithm, Distinct):
        return search.distinct(kernel, node, algorithm)
    if isinstance(algorithm, KeySearch):
        return search.keys(kernel, node, algorithm)
    if isinstance(algorithm, Entropy):
        return entropy.routine(kernel)
    if isinstance(algorithm, Sampling):
        return draw.routine(kernel, node)
    if isinstance(algorithm, CombinedRows):
        return combined_rows.routine(kernel, node, algorithm, target)
    if isinstance(algorithm, HashSums):
        return hashes.routine(kernel, node)
    if isinstance(algorithm, SoftSelection):
        return soft_selection.routine(kernel, node, algorithm, target)
    if isinstance(algorithm, RescaledProduct):
        return products.routine(kernel, node, algorithm)
    if isinstance(algorithm, RunningSum):
        return running_sums.routine(kernel, node, algorithm, target)
    if isinstance(algorithm, StringEquality):
        return strings.equality(kernel, node)
    if isinstance(algorithm, StringSearch):
        return strings.search(kernel, node)
    if isinstance(algorithm, GreedySelection):
        return suppression.greedy_routine(kernel, node, algorithm)
    return suppression.routine(kernel, node, algorithm, target)
