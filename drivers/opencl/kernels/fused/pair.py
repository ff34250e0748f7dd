"""Fuses a depthwise convolution into the pointwise convolution that reads it.

This avoids an intermediate value, and the launch of a kernel, which may take longer than its run.
Every tile of columns recomputes the depthwise outputs it needs, which is cheap if its result has
few channels.
"""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.graph import Convolution, DepthwiseConvolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import multiply_add
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import used_values, value4_function, vector4_reads
from neurald.drivers.opencl.kernels.gemm import tile
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view, is_supported, loads, reader
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

_TEMPLATES = templates(__name__, "pair.cl")
#: Larger windows are better computed once.
_MAX_TAPS = 9


def candidates(
    first: Kernel, second: Kernel, facts: DeviceFacts, *, has_workspace: bool = False
) -> Sequence[Source]:
    """Returns every way to compute `second` without storing the output of `first`.

    The best one comes first. The caller ensures that no other kernel reads that value. Only a
    depthwise convolution of floats followed by a convolution with a 1 × 1 window is supported;
    otherwise the result is empty.
    """
    depthwise, pointwise = first.contraction, second.contraction
    if not isinstance(depthwise, DepthwiseConvolution) or not isinstance(pointwise, Convolution):
        return ()
    product = gemm_view(second)
    if product is None or product.left is not first.output or product.is_windowed or product.batches > 1:
        return ()
    if first.output.shape != depthwise.output.shape or first.output in used_values(second):
        return ()
    is_small = depthwise.depth <= _MAX_TAPS
    is_plain = depthwise.multiplier == 1 and depthwise.output.type is Scalar.FLOAT32 and product.run % 4 == 0
    if not is_small or not is_plain or not is_supported(depthwise.input, depthwise.weights, depthwise.output):
        return ()
    if value4_function(first, KernelArguments((first.output, *used_values(first)))) is None:
        return ()
    computed = tile.ComputedLeft(
        kernel=first,
        values=tuple(dict.fromkeys((depthwise.weights, *used_values(first)))),
        vector4_values=(depthwise.weights, *vector4_reads(first)),
        taps=depthwise.depth,
        left4=lambda arguments: _left4(first, depthwise, arguments),
        sizes=_sizes(depthwise),
    )
    read = replace(product, left=depthwise.input, text=fill(_TEMPLATES["row"]))
    return LazySources(tile.candidates(second, read, facts, has_workspace=has_workspace, computed=computed))


def _sizes(depthwise: DepthwiseConvolution) -> dict[str, int]:
    _, height, width, channels = depthwise.input.shape
    _, rows, columns, _ = depthwise.output.shape
    return {
        "height": height,
        "width": width,
        "channels": channels,
        "lines": rows,
        "line": columns,
        "pad_y": depthwise.padding[0][0],
        "pad_x": depthwise.padding[1][0],
        "stride_y": depthwise.stride[0],
        "stride_x": depthwise.stride[1],
    }


def _left4(first: Kernel, depthwise: DepthwiseConvolution, arguments: KernelArguments) -> str:
    """Computes four channels of a depthwise output, including its epilogue."""
    value4 = value4_function(first, arguments)
    assert value4 is not None  # noqa: S101 - the caller has checked this
    source, weights = arguments[1].call_arguments, arguments.by_value[depthwise.weights].call_arguments
    parameters = f"{arguments.pointers}, const {NAME}_row row, const int k$SIZE_PARAMETERS"
    lines = [
        value4.text.replace(f"{NAME}_value4", f"{NAME}_left_value4").replace("$length", "$channels"),
        loads("w", reader(depthwise.weights, arguments.images), 0, "float"),
        f"static inline float4 {NAME}_left4({parameters}) {{",
        "  if (row.row < 0 || k >= $depth) return (float4)(0);",
        "  float4 sum = (float4)(0);",
    ]
    rows, columns = depthwise.kernel
    taps = [(i, j) for i in range(rows) for j in range(columns)]
    # All loads come first, so that they overlap.
    for number, (i, j) in enumerate(taps):
        y, x = i * depthwise.dilation[0], j * depthwise.dilation[1]
        lines += [
            f"  const bool in{number} = (uint)(row.y + {y}) < (uint)$height && (uint)(row.x + {x}) < (uint)$width;",
            f"  float4 x{number} = (float4)(0);",
            f"  if (in{number}) x{number} = {NAME}_l4({source}, row.base + ({y} * $width + {x}) * $channels + k);",
        ]
    lines += [
        f"  {multiply_add('float', 'sum', f'x{number}', f'{NAME}_w4({weights}, {number} * $channels + k)')}"
        for number in range(len(taps))
    ]
    lines += [
        f"  return {NAME}_left_value4(sum, row.row, k, {arguments.call_arguments}$SIZE_ARGUMENTS);",
        "}",
        "",
    ]
    return "\n".join(lines)
