"""Recognizes blocks of layers that may become one kernel.

A block consists of a depthwise convolution and one or two pointwise ones.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from neurald.drivers.compiler.ir.graph import Convolution, DepthwiseConvolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.kernel_source import NAME
from neurald.drivers.opencl.kernels.epilogue.epilogue import fetch4_function, used_values, value4_function
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, gemm_view, is_supported

#: Larger windows are better computed once.
_MAX_TAPS = 25


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Kernels with consecutive contractions; pointwise ones are represented as matrix products.

    Attributes:
        expand, wide: the pointwise expansion to the depthwise convolution's channels; None if it is
            not part of the block.
        depthwise, convolution: the depthwise convolution, with one output channel per input
            channel.
        project, narrow: the pointwise projection of the depthwise convolution's channels.
    """

    expand: Kernel | None
    depthwise: Kernel
    project: Kernel
    convolution: DepthwiseConvolution
    wide: GemmView | None
    narrow: GemmView

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """All kernels, in order."""
        return tuple(each for each in (self.expand, self.depthwise, self.project) if each is not None)

    @property
    def types(self) -> set[Scalar]:
        """Types of the input, and of what each kernel computes for the next one."""
        first = self.convolution.input if self.wide is None else self.wide.left
        return {first.type, self.convolution.input.type, self.narrow.left.type}


def block_of(expand: Kernel | None, depthwise: Kernel, project: Kernel) -> Block | None:
    """Returns kernels as a block; None if they do not form one.

    The pointwise convolutions must have constant weights. The intermediate values must be
    computable four channels at a time, and each may be read by the next kernel only.
    """
    convolution = depthwise.contraction
    if not isinstance(convolution, DepthwiseConvolution) or convolution.multiplier != 1:
        return None
    if convolution.depth > _MAX_TAPS:
        return None
    narrow, wide = _plain_product(project), None if expand is None else _plain_product(expand)
    if narrow is None or narrow.left is not depthwise.output:
        return None
    if expand is not None and (wide is None or convolution.input is not expand.output):
        return None
    if not is_supported(convolution.input, convolution.weights, convolution.output):
        return None
    kernels = (depthwise,) if expand is None else (expand, depthwise)
    between = {each.output for each in kernels}
    if any(between & set(used_values(each)) for each in (*kernels, project)):
        return None
    for kernel in kernels:
        assert kernel.contraction is not None  # noqa: S101 - they all have contractions
        if kernel.output.shape != kernel.contraction.output.shape:
            return None
        if value4_function(kernel, KernelArguments((kernel.output, *used_values(kernel)))) is None:
            return None
    return Block(
        expand=expand,
        depthwise=depthwise,
        project=project,
        convolution=convolution,
        wide=wide,
        narrow=narrow,
    )


def _plain_product(kernel: Kernel) -> GemmView | None:
    """Returns the product of a pointwise convolution with constant weights and aligned channels."""
    product = gemm_view(kernel) if isinstance(kernel.contraction, Convolution) else None
    if product is None or product.batches > 1 or product.is_windowed or product.right.constant is None:
        return None
    return product if product.depth % 4 == 0 and product.columns % 4 == 0 else None


@dataclass(frozen=True, slots=True)
class NamedEpilogue:
    """Epilogue of one of several kernels in a text.

    Attributes:
        text: the functions `KERNEL_NAME_<name>_value4`, see `value4_function`, and
            `KERNEL_NAME_<name>_fetch4`, see `fetch4_function`.
        sizes: the sizes that they refer to.
        has_fetch: whether the second function exists.
    """

    text: str
    sizes: Mapping[str, int]
    has_fetch: bool


def named_epilogue(name: str, kernel: Kernel, arguments: KernelArguments) -> NamedEpilogue:
    """Returns the functions of one of a block's kernels under unique names.

    Args:
        name: the prefix for functions and sizes.
        kernel: a kernel that `value4_function` supports.
        arguments: the arguments of the calling function.
    """
    four, fetch = value4_function(kernel, arguments), fetch4_function(kernel, arguments)
    assert four is not None  # noqa: S101 - `block_of` has checked this
    text = four.text + fetch
    for function in ("value4", "fetch4"):
        text = text.replace(f"{NAME}_{function}", f"{NAME}_{name}_{function}")
    text = re.sub(r"\$(c\d+)\b", rf"${name}_\1", text).replace("$length", str(kernel.shape[-1]))
    sizes = {f"{name}_{size}": number for size, number in four.sizes.items()}
    return NamedEpilogue(text, sizes, has_fetch=bool(fetch))
