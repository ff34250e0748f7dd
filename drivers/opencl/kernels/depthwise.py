"""Depthwise convolutions: a work-item computes one or four channels of a few adjacent positions."""

from dataclasses import dataclass

from neurald.drivers.compiler.ir.extents.extent import estimate, is_multiple, same_length
from neurald.drivers.compiler.ir.graph import DepthwiseConvolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import as_images
from neurald.drivers.opencl.codegen.dialect import multiply_add
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.render import LOCAL_SIZE
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import Epilogue, epilogue, used_values, vector4_reads
from neurald.drivers.opencl.kernels.gemm.gemm_view import is_supported, loads, reader
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "depthwise.cl")
#: Larger windows are computed in loops instead of unrolled code.
_MAX_TAPS = 49
#: With fewer work-items per compute unit, each one computes a single position.
_MIN_ITEMS_PER_UNIT = 96


@dataclass(frozen=True, slots=True)
class _WorkItemTile:
    """Output elements that a work-item computes: some channels of adjacent positions of a row."""

    contraction: DepthwiseConvolution
    channels: int
    positions: int

    @property
    def items(self) -> int:
        images, rows, columns, channels = self.contraction.output.shape
        return images * rows * -(-columns // self.positions) * (channels // self.channels)

    @property
    def sizes(self) -> dict[str, int]:
        _, height, width, channels = self.contraction.input.shape
        _, rows, columns, outputs = self.contraction.output.shape
        return {
            "items": self.items,
            "across": outputs // self.channels,
            "strips": -(-columns // self.positions),
            "rows": rows,
            "columns": columns,
            "outputs": outputs,
            "height": height,
            "width": width,
            "channels": channels,
            "pad_y": self.contraction.padding[0][0],
            "pad_x": self.contraction.padding[1][0],
            "input_zero": self.contraction.input_zero,
            "weights_zero": self.contraction.weights_zero,
        }


def candidates(kernel: Kernel, contraction: DepthwiseConvolution, facts: DeviceFacts) -> list[Source]:
    """Returns one source per number of positions of a work-item.

    The source with two positions comes first if there is enough parallelism, because it reads less.
    """
    if not is_supported(contraction.input, contraction.weights, contraction.output):
        return []
    if not same_length(kernel.output.count, contraction.output.count):
        return []
    channels, columns = contraction.output.shape[3], contraction.output.shape[2]
    width = 4 if contraction.multiplier == 1 and is_multiple(channels, 4) else 1
    is_long = contraction.depth > _MAX_TAPS
    plans = [
        _WorkItemTile(contraction, width, positions)
        for positions in ((1,) if is_long else (4, 2, 1))
        if positions <= estimate(columns)
    ]
    is_busy = (
        estimate(_WorkItemTile(contraction, width, 2).items) >= facts.compute_units * _MIN_ITEMS_PER_UNIT
    )
    order = (2, 4, 1) if is_busy else (1, 2, 4)
    plans.sort(key=lambda plan: order.index(plan.positions))
    return [_source(kernel, plan, facts) for plan in plans]


def _source(kernel: Kernel, plan: _WorkItemTile, facts: DeviceFacts) -> Source:
    contraction = plan.contraction
    operands = (contraction.input, contraction.weights)
    images = frozenset[Value]()
    if facts.images is not None and plan.channels == 4:
        images = as_images((*operands, *vector4_reads(kernel)), facts.images)
    values = kernel_arguments(kernel.output, operands, used_values(kernel), images)
    after = epilogue(kernel, values, is_vector=plan.channels == 4)
    kind = "float" if contraction.output.type is Scalar.FLOAT32 else "int"
    text = "".join(
        (
            loads("l", reader(contraction.input, images), contraction.input_zero, kind, "input_zero"),
            loads("r", reader(contraction.weights, images), contraction.weights_zero, kind, "weights_zero"),
            after.text,
            _text(plan, after, kind),
        )
    )
    text = resolved(text, values.parameters, {**plan.sizes, **after.sizes}, is_shared=facts.is_nvidia)
    return Source(
        code=LazyCode.of(text),
        arguments=values.values,
        images=values.image_positions,
        groups=-(-plan.items // LOCAL_SIZE),
        local_size=LOCAL_SIZE,
        label=f"depthwise, {plan.channels} channels of {plan.positions} positions",
        operations=kernel.operations,
    )


def _text(plan: _WorkItemTile, after: Epilogue, kind: str) -> str:
    contraction = plan.contraction
    columns = contraction.output.shape[2]
    vector = f"{kind}{plan.channels if plan.channels > 1 else ''}"
    begin = fill(
        _TEMPLATES["begin"],
        ITEMS=LOCAL_SIZE,
        WIDTH=plan.channels,
        POSITIONS=plan.positions,
        STRIDE_Y=contraction.stride[0],
        STRIDE_X=contraction.stride[1],
        MULTIPLIER=contraction.multiplier,
        T=vector,
    )
    lines = [f"  for (int o = 0; o < {plan.positions}; ++o) sums[o] = ({vector})(0);"]
    is_long = contraction.depth > _MAX_TAPS
    left, right = after.arguments[1].call_arguments, after.arguments[2].call_arguments
    written = _loop(plan, kind, left, right) if is_long else _unrolled(plan, kind, vector, left, right)
    lines += written
    store = after.store4 if plan.channels == 4 else after.store
    place = "(image * $rows + y) * $columns + x"
    for o in range(plan.positions):
        guard = f"if (x + {o} < $columns) " if not is_multiple(columns, plan.positions) else ""
        lines.append(f"  {guard}{store(f'sums[{o}]', f'{place} + {o}', 'c')}")
    return "\n".join((begin.rstrip("\n"), *lines, "}", ""))


def _loop(plan: _WorkItemTile, kind: str, source: str, weights: str) -> list[str]:
    """Returns a loop over the window of one position."""
    contraction, size = plan.contraction, plan.channels
    read = f"{NAME}_l{size}({source}, base + (y_at * $width + x_at) * $channels$SIZE_ARGUMENTS)"
    tap = f"(i * {contraction.kernel[1]} + j)"
    weight = f"{NAME}_r{size}({weights}, {tap} * $outputs + c$SIZE_ARGUMENTS)"
    return [
        f"  for (int i = 0; i < {contraction.kernel[0]}; ++i)",
        f"    for (int j = 0; j < {contraction.kernel[1]}; ++j) {{",
        f"      const int y_at = i * {contraction.dilation[0]}, x_at = j * {contraction.dilation[1]};",
        "      if ((uint)(top + y_at) < (uint)$height && (uint)(left + x_at) < (uint)$width)",
        f"        {multiply_add(kind, 'sums[0]', read, weight)}",
        "    }",
    ]


def _unrolled(plan: _WorkItemTile, kind: str, vector: str, source: str, weights: str) -> list[str]:
    """Returns unrolled code for the windows of all positions, which reads shared inputs once."""
    contraction, size = plan.contraction, plan.channels
    rows, columns = contraction.kernel
    stride, dilation = contraction.stride[1], contraction.dilation[1]
    lines = []
    for i in range(rows):
        y = i * contraction.dilation[0]
        lines += ["  {", f"    const bool seen = (uint)(top + {y}) < (uint)$height;"]
        lines += [
            f"    const {vector} w{j} = {NAME}_r{size}({weights}, {i * columns + j} * $outputs + c$SIZE_ARGUMENTS);"
            for j in range(columns)
        ]
        readers: dict[int, list[tuple[int, int]]] = {}
        for o in range(plan.positions):
            for j in range(columns):
                readers.setdefault(o * stride + j * dilation, []).append((o, j))
        for x, pairs in sorted(readers.items()):
            inside = f"seen && (uint)(left + {x}) < (uint)$width"
            place = f"base + ({y} * $width + {x}) * $channels"
            loaded = f"{NAME}_l{size}({source}, {place}$SIZE_ARGUMENTS)"
            lines.append(f"    const {vector} x{x} = {inside} ? {loaded} : ({vector})(0);")
            lines += [f"    {multiply_add(kind, f'sums[{o}]', f'x{x}', f'w{j}')}" for o, j in pairs]
        lines.append("  }")
    return lines
