"""How much of models the CPU device has compiled, for the summary of a test run."""

from collections.abc import Callable

import neurald as nd


def tell_compiled(compilation: nd.Compilation, record_property: Callable[[str, object], None]) -> None:
    """Tells how many operations a compilation of the CPU device alone has, and how many of them ran compiled.

    Args:
        compilation: that has been executed, so that shapes that were open are known.
        record_property: pytest's.
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
