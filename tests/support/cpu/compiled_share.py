"""Reports how many operations the CPU device has compiled, for the summary of a test run."""

from collections.abc import Callable

import neurald as nd


def tell_compiled(compilation: nd.Compilation, record_property: Callable[[str, object], None]) -> None:
    """Records the number of operations of a compilation, and of those that ran compiled.

    Args:
        compilation: for the CPU device alone; it has been executed, so that all shapes are known.
        record_property: the pytest fixture.
    """
    operations = len(compilation.model.main.operations)
    on_references = {
        operation
        for step in compilation.profile()
        for kernel in step.kernels
        if kernel.is_reference
        for operation in kernel.operations
    }
    record_property("operations", operations)
    record_property("operations compiled", operations - len(on_references))
