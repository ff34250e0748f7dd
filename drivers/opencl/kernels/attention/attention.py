"""Selects kernels of attention."""

from collections.abc import Iterator

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.attention import few_rows, tensor_core, tile, warpgroup
from neurald.drivers.opencl.kernels.attention.attention_view import attention_view
from neurald.drivers.opencl.platform.device_facts import DeviceFacts


def fits(kernel: Kernel, facts: DeviceFacts) -> bool:
    """Returns True if one kernel computes an attention, and faster than several.

    On CPUs, matrix products have better kernels of their own.
    """
    return not facts.is_cpu and next(candidates(kernel, facts), None) is not None


def candidates(kernel: Kernel, facts: DeviceFacts) -> Iterator[Source]:
    """Yields every way to compute an attention kernel, the most promising first."""
    view = attention_view(kernel)
    if view is not None:
        yield from few_rows.candidates(view, facts)
    if view is not None and not view.is_appended:
        yield from tensor_core.candidates(view, facts)
        yield from tile.candidates(view, facts)


def of_warpgroups(kernel: Kernel, facts: DeviceFacts) -> Iterator[Source]:
    """Yields every way to compute it by warpgroups, which is not a phase of a persistent kernel."""
    view = attention_view(kernel)
    if view is not None and not view.is_appended:
        yield from warpgroup.candidates(view, facts)
