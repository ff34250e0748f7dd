"""Top-k of rows: chooses the form of the search.

The elements of short rows are ranked (`ranked_top_k.py`), and long rows of which many elements are
wanted are sorted (`sorted_top_k.py`). Others are searched with a heap of the best elements so far
(`heap_top_k.py`).
"""

from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.kernels.row_wise import heap_top_k, ranked_top_k, sorted_top_k
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target


def routine(kernel: Kernel, node: TopK, target: Target) -> Routine:
    """Returns the routine of a kernel.

    Args:
        kernel: its output is not empty.
        node: its top-k.
        target: the target of the code.
    """
    ranked, sorted_, heap = (
        ranked_top_k.cycles(node, target),
        sorted_top_k.cycles(node),
        heap_top_k.cycles(node),
    )
    if ranked < min(heap, sorted_):
        return ranked_top_k.routine(kernel, node, target)
    if sorted_ < heap:
        return sorted_top_k.routine(kernel, node, target)
    return heap_top_k.routine(kernel, node, target)
