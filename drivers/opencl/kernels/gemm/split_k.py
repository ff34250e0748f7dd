"""Split-K float GEMM whose work-groups add to the output atomically, in any order.

No group waits for others or reads their partial sums. This requires an epilogue that only adds
terms, which the first share does, and an output that is zero before: a separate kernel clears it
early enough that no kernel waits for that.
"""

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Apply, Expression
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.render import LOCAL_SIZE
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import used_values, value4_function
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.reduction_order import ReductionOrder

_TEMPLATES = templates(__name__, "split_k.cl")
#: The first compute capability that adds four floats at once.
_FOUR_AT_ONCE = (9, 0)


def is_supported(facts: DeviceFacts) -> bool:
    """Returns True if a device can add floats in memory atomically, and may do so in any order."""
    return facts.has_nvidia_capability((7, 0)) and facts.reduction_order is ReductionOrder.FAST


def only_adds_terms(kernel: Kernel) -> bool:
    """Returns True if a kernel computes vectors of FLOAT32 as its contraction plus other terms."""
    if (
        kernel.output.type is not Scalar.FLOAT32
        or kernel.output_offset is not None
        or not _only_adds_terms(kernel.body)
    ):
        return False
    return value4_function(kernel, KernelArguments((kernel.output, *used_values(kernel)))) is not None


def _only_adds_terms(body: Expression) -> bool:
    has_sum: dict[Expression, bool] = {}
    for each in walk(body):
        has_sum[each] = isinstance(each, AccumulatorRef) or any(has_sum[operand] for operand in each.operands)
    while not isinstance(body, AccumulatorRef):
        if not isinstance(body, Apply) or body.op is not Op.ADD or body.type is not Scalar.FLOAT32:
            return False
        with_sums = [each for each in body.operands if has_sum[each]]
        if len(with_sums) != 1:
            return False
        (body,) = with_sums
    return body.type is Scalar.FLOAT32


def add4_text(kernel: Kernel, arguments: KernelArguments, facts: DeviceFacts) -> str:
    """Returns the functions `KERNEL_NAME_value4`, see `value4_function`, and `KERNEL_NAME_add4`.

    The latter adds four floats to those at a pointer.
    """
    value4 = value4_function(kernel, arguments)
    assert value4 is not None  # noqa: S101 - the caller has checked this
    name = "add4" if facts.has_nvidia_capability(_FOUR_AT_ONCE) else "add4_one_by_one"
    return f"{value4.text}\n{fill(_TEMPLATES[name])}"


def clearing_source(output: Value, operations: tuple[int, ...]) -> Source:
    """Returns the kernel that clears an output.

    Args:
        output: an output of floats, whose number is a multiple of four.
        operations: the operations that compute the output.
    """
    count = output.count // 4
    text = fill(_TEMPLATES["zeros"], LOCAL_SIZE=LOCAL_SIZE, COUNT=count)
    return Source(
        code=LazyCode.of(text),
        arguments=(output,),
        groups=-(-count // LOCAL_SIZE),
        local_size=LOCAL_SIZE,
        label="clears an output that split-K work-groups add to",
        operations=operations,
    )
