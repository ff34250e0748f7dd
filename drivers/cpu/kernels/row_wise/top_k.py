"""Top-k of rows: chooses the form of the search.

The elements of short rows are ranked (`ranked_top_k.py`), or the few that are wanted are found one
after the other (`repeated_top_k.py`). Long rows of which many elements are wanted are sorted
(`sorted_top_k.py`). Others are searched with a heap of the best elements so far (`heap_top_k.py`).
"""

from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.kernels.row_wise import heap_top_k, ranked_top_k, repeated_top_k, sorted_top_k
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target


def routine(kernel: Kernel, node: TopK, target: Target) -> Routine:
    """Returns the routine of a kernel.

    Args:
        kernel: its output is not empty.
        node: its top-k.
        target: the target of the code.
    """
    forms = (
        (ranked_top_k.cycles(node, target), ranked_top_k.routine),
        (repeated_top_k.cycles(node, target), repeated_top_k.routine),
        (sorted_top_k.cycles(node), sorted_top_k.routine),
        (heap_top_k.cycles(node, target), heap_top_k.routine),
    )
    _, write = min(forms, key=lambda form: form[0])
    return write(kernel, node, target)
