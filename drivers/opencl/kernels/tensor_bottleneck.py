"""Three layers as one kernel on tensor cores: products of few channels to many, a depthwise convolution of those, their products.

Or the last two only. It multiplies as `tensor_core` does: halves, 8 bits, and FLOAT32 as sums of two TF32. Each warp keeps its part of
the weights in registers, which it asks for before the group waits for what others compute. They lie in memory in the order in which
tensor cores take them, 16 columns at a time, of which a work-item gets the sums of four side by side.

A group computes a part of an image of the output, with all wide channels or a share of them; then each adds its part to the output
(see `adding`), or the last group to be done adds up all of them. After it has waited a group copies the input to local memory, computes its
wide channels, what the depthwise convolution makes of those, and the last products, each time from local memory to local memory.
What lies outside of the image stands for zero there, so that windows need not look whether they lie inside. What epilogues read for
each channel is in local memory, too: there are too few warps to wait for anything further away.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from neurald.drivers.compiler.expression import Load
from neurald.drivers.compiler.graph import DepthwiseConvolution, Value, flat
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.compiler.rewriting import walk
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.opencl.arguments import Arguments
from neurald.drivers.opencl.dialect import multiply_add, stored
from neurald.drivers.opencl.kernels import adding
from neurald.drivers.opencl.kernels import tensor_bottleneck_text as texts
from neurald.drivers.opencl.kernels.block import Block, block_of, named
from neurald.drivers.opencl.kernels.correction import corrected
from neurald.drivers.opencl.kernels.dot import dot_text, instruction_of
from neurald.drivers.opencl.kernels.epilogue import epilogue, used_values
from neurald.drivers.opencl.kernels.finish import (
    GATHERED,
    MOST_TILES,
    Sums,
    fetch,
    finish,
    gathered,
    share_text,
    split_cycles,
    workspace_bytes,
)
from neurald.drivers.opencl.kernels.packing import packed, padded
from neurald.drivers.opencl.kernels.patch import PLACE, Patch, parts_of, patches
from neurald.drivers.opencl.kernels.product import Product
from neurald.drivers.opencl.kernels.template import arguments, fill, resolved
from neurald.drivers.opencl.kernels.tensor_core import MULTIPLY, PART_BYTES, by_column
from neurald.drivers.opencl.kernels.tensor_core_text import SPLITTING
from neurald.drivers.opencl.lazy_sources import LazySources
from neurald.drivers.opencl.platform import DeviceFacts
from neurald.drivers.opencl.source import NAME, WAIT, Source

_ITEMS = 256
_WARPS = _ITEMS // 32
#: Larger windows are better computed once.
_MOST_TAPS = 25
#: Local memory that a group may use.
_LOCAL_BYTES = 48 * 1024
#: Columns whose weights lie together, and that a warp multiplies at a time.
_COLUMNS = 16
#: Registers of a work-item for weights and sums, of which each has as many for other things.
_MOST_REGISTERS = 128
#: Positions of the output for a group, and groups that share out the wide channels, at most.
_MOST_ROWS, _MOST_SHARES = 128, 16
#: Choices that are offered: their functions are large, which compilers take their time for.
_CHOICES = 4
_POWERS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Warps:
    """How the warps of a group share out products: columns, rows, and the depth."""

    across: int
    down: int
    slices: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class _Operands:
    """What kernels of a block read, in the order in which it suits them, and what follows their sums.

    Attributes:
        wide, narrow: columns side by side, see `by_column`.
        taps: the weights of the depthwise convolution.
        before: the kernels before the last one, with sums of what is stored, by the names that their functions have.
        project: the last one.
        of_channels, of_columns: constants that have an element for each wide channel, or column of the output.
        adds: whether groups can add to the output.
    """

    wide: Value | None
    taps: Value
    narrow: Value
    before: Mapping[str, Kernel]
    project: Kernel
    of_channels: tuple[Value, ...]
    of_columns: tuple[Value, ...]
    adds: bool


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """What a group computes: a part of an image, and of the columns, from a share of the wide channels.

    Attributes:
        parts: of 16 columns.
    """

    block: Block
    operands: _Operands
    patch: Patch
    parts: int
    shares: int

    @property
    def size(self) -> int:
        """Of an element, in bytes."""
        return self.block.convolution.input.type.size_bytes

    @property
    def is_twice(self) -> bool:
        """Whether elements are taken as sums of two that tensor cores multiply."""
        return self.size == 4

    @property
    def adds(self) -> bool:
        """Whether groups add their shares to the output."""
        return self.shares > 1 and self.operands.adds

    @property
    def each(self) -> int:
        """Elements that are multiplied at a time, along the depth."""
        return PART_BYTES // self.size

    @property
    def channels(self) -> int:
        """Wide channels of a group; the last ones of all may not be there."""
        return _channel_parts(self.block) // self.shares * _unit(self.block)

    @property
    def across(self) -> int:
        """Groups that share the columns of a position."""
        return _steps(_steps(self.block.narrow.columns, _COLUMNS), self.parts)

    @property
    def tiles(self) -> int:
        """Groups that share the same wide channels."""
        return self.patch.count * self.across

    @property
    def wide_steps(self) -> int:
        """Of the depth of the first products; 0: there are none."""
        return 0 if self.block.wide is None else _steps(self.block.wide.depth, self.each)

    @property
    def narrow_steps(self) -> int:
        """Of the depth of the last ones, for a group."""
        return self.channels // self.each

    @cached_property
    def wide_warps(self) -> _Warps:
        """Who computes which wide channels."""
        choices = (_Warps(across=across, down=_WARPS // across) for across in _POWERS)
        return min(choices, key=lambda warps: (self.wide_turns(warps), self.wide_registers(warps)))

    def wide_turns(self, warps: _Warps) -> int:
        """How often each of them multiplies 16 rows with 16 columns."""
        return _steps(_steps(self.patch.positions, 16), warps.down) * _steps(
            self.channels // _COLUMNS, warps.across
        )

    def wide_registers(self, warps: _Warps) -> int:
        """For weights."""
        each = self.wide_steps * 4 + self.is_twice * 24
        return _steps(self.channels // _COLUMNS, warps.across) * each if self.wide_steps else 0

    @cached_property
    def narrow_warps(self) -> _Warps:
        """Who computes which sums."""
        choices = (
            _Warps(across=across, down=down, slices=_WARPS // across // down)
            for across in _POWERS
            for down in _POWERS
            if across * down <= _WARPS
        )
        return min(choices, key=lambda warps: (self.narrow_cycles(warps), self.narrow_registers(warps)))

    def narrow_cycles(self, warps: _Warps) -> int:
        """About how long they multiply, and add up over slices."""
        tiles = _steps(_steps(self.patch.rows, 16), warps.down) * _steps(self.parts, warps.across)
        gathered = (
            self.patch.rows * self.parts * _COLUMNS * warps.slices // 128 + 200 if warps.slices > 1 else 0
        )
        return tiles * (_steps(self.narrow_steps, warps.slices) * 30 + 100) + gathered

    def narrow_registers(self, warps: _Warps) -> int:
        """For weights and sums."""
        columns = _steps(self.parts, warps.across)
        rows = _steps(_steps(self.patch.rows, 16), warps.down)
        return columns * (_steps(self.narrow_steps, warps.slices) * 4 + rows * 8 + self.is_twice * 16)

    @property
    def registers(self) -> int:
        """For all weights, and the last sums."""
        return self.wide_registers(self.wide_warps) + self.narrow_registers(self.narrow_warps)

    @property
    def depth_bytes(self) -> int:
        """Of a position of what the first products read."""
        return 0 if self.block.wide is None else self.block.wide.depth * self.size

    @property
    def copied_bytes(self) -> int:
        """So many bytes of the input are copied at a time."""
        all_channels = self.block.convolution.input.shape[3] * self.size
        return math.gcd(16, self.depth_bytes or math.gcd(all_channels, self.channels * self.size))

    @property
    def copies(self) -> set[int]:
        """Of how many bytes there are copies."""
        constants = (4 * value.type.size_bytes for value, _ in self.near_values[:-1])
        return {self.copied_bytes, self.taps_each, *constants}

    @property
    def near_pitch(self) -> int:
        """Bytes of a position of the input in local memory: such that the banks of neighbours differ."""
        return self.wide_steps * PART_BYTES + 16

    @property
    def wide_pitch(self) -> int:
        """Bytes of a position of the wide channels, and of what the depthwise convolution makes of it."""
        return self.channels * self.size + 16

    @property
    def taps_each(self) -> int:
        """Bytes of the weights of a window for four channels, one after another, in rows."""
        return 8 if self.size == 2 else 16

    @property
    def tap_rows(self) -> int:
        """How many such rows there are."""
        depth = self.block.convolution.depth
        return _steps(depth, 4) + 1 if self.size == 1 else depth

    @property
    def near_at(self) -> int:
        """Where in local memory the input is: behind the wide channels."""
        return self.patch.positions * self.wide_pitch

    @property
    def middle_at(self) -> int:
        """Where in it is what the depthwise convolution gives: in the place of the input, behind the sums of slices, which come later."""
        slices = self.narrow_warps.slices
        sums = slices * _steps(self.patch.rows, 16) * 16 * self.parts * _COLUMNS * 4 if slices > 1 else 0
        return max(self.near_at, sums)

    @property
    def taps_at(self) -> int:
        """Where in it the weights of the depthwise convolution are."""
        near = _steps(self.patch.positions, 16) * 16 * self.near_pitch if self.wide_steps else 0
        middle = _steps(self.patch.rows, 16) * 16 * self.wide_pitch
        return max(self.near_at + near, self.middle_at + middle)

    @property
    def near_values(self) -> tuple[tuple[Value, int], ...]:
        """Constants that epilogues read from local memory, and where in it they are; one more is where those end."""
        at = self.taps_at + self.tap_rows * self.channels // 4 * self.taps_each
        found = []
        for values, count in (
            (self.operands.of_channels, self.channels),
            (self.operands.of_columns, self.parts * _COLUMNS),
        ):
            for value in values:
                found.append((value, at))
                at += count * value.type.size_bytes
        return (*found, (self.operands.narrow, at))

    @property
    def scratch_bytes(self) -> int:
        """Local memory."""
        return self.near_values[-1][1]

    def cost(self, facts: DeviceFacts) -> float:
        """About how long it takes, in cycles of a compute unit."""
        waves = math.ceil(self.tiles * self.shares / facts.compute_units)
        step = 100 if self.is_twice else 50
        wide = self.wide_turns(self.wide_warps) * (400 + self.wide_steps * step) if self.wide_steps else 0
        taps = self.block.convolution.depth
        depthwise = math.ceil(self.patch.rows * self.channels / 4 / _ITEMS) * (150 + taps * 40)
        depth = self.channels if self.block.wide is None else self.block.wide.depth
        read = self.patch.positions * depth * self.size / 32
        rows = _steps(self.patch.rows, 16) * 16
        split = 0.0
        if self.adds:
            split = 500
        elif self.shares > 1:
            split = 1500 + split_cycles(rows * self.parts * _COLUMNS, self.shares)
        return waves * (2500 + wide + depthwise + self.narrow_cycles(self.narrow_warps) + read + split)


def _unit(block: Block) -> int:
    """Wide channels that groups share no further: as many as are columns, or multiplied at a time."""
    return max(_COLUMNS, PART_BYTES // block.convolution.input.type.size_bytes)


def _channel_parts(block: Block) -> int:
    return _steps(block.convolution.input.shape[3], _unit(block))


def _steps(count: int, each: int) -> int:
    return -(-count // each)


def candidates(
    expand: Kernel | None,
    depthwise: Kernel,
    project: Kernel,
    facts: DeviceFacts,
) -> Sequence[Source]:
    """Every way to compute `project` from what `expand` (or else `depthwise`) reads, the best first; what is between is not stored.

    The caller sees to it that nobody else reads that. All give the same integers. None where there are no tensor cores for the
    operands.
    """
    if not facts.is_nvidia_from((8, 0)) or facts.images is not None:
        return ()
    block = block_of(expand, depthwise, project)
    operands = None if block is None else _operands(block, facts)
    if block is None or operands is None:
        return ()
    return LazySources(_sources(block, operands, facts))


def _operands(block: Block, facts: DeviceFacts) -> _Operands | None:
    convolution = block.convolution
    if block.types not in ({Scalar.INT8}, {Scalar.UINT8}, {Scalar.FLOAT16}, {Scalar.FLOAT32}):
        return None
    if convolution.depth > _MOST_TAPS:
        return None
    taps = _eight_bits(convolution) if block.narrow.is_integer else _floats(convolution)
    narrow = by_column(block.narrow)
    if taps is None or narrow is None:
        return None
    wide, before = None, {"middle": block.depthwise}
    if block.expand is not None and block.wide is not None:
        wide = by_column(block.wide)
        if wide is None:
            return None
        before["wide"] = _corrected(block.expand, block.wide, wide)
    project = _corrected(block.project, block.narrow, narrow)
    read = [set(used_values(each)) for each in (*before.values(), project)]
    shared = {value for one in read for value in one if sum(value in each for each in read) > 1}
    return _Operands(
        wide=wide,
        taps=taps,
        narrow=narrow,
        before=before,
        project=project,
        of_channels=tuple(each for kernel in before.values() for each in _of_columns(kernel, shared)),
        of_columns=_of_columns(project, shared),
        adds=adding.is_offered(facts) and adding.is_sum(project),
    )


def _corrected(kernel: Kernel, product: Product, right: Value) -> Kernel:
    return corrected(kernel, product, right) if product.left_zero else kernel


def _of_columns(kernel: Kernel, others: set[Value]) -> tuple[Value, ...]:
    """The constants that an epilogue reads one element of for each column, and nothing else; without some."""
    found = []
    for value in used_values(kernel):
        loads = [each for each in walk(*kernel.roots) if isinstance(each, Load) and each.value is value]
        is_plain = all(
            each.guard is None and flat(each.index, value.shape) is kernel.axes[-1] for each in loads
        )
        if (
            is_plain
            and value.constant is not None
            and value.count == kernel.shape[-1]
            and value not in others
        ):
            found.append(value)
    return tuple(found)


def _floats(convolution: DepthwiseConvolution) -> Value | None:
    weights = convolution.weights
    is_known = weights.constant is not None and weights.type is convolution.input.type
    return weights if is_known else None


def _eight_bits(convolution: DepthwiseConvolution) -> Value | None:
    """Weights of four taps as one word, a row for each four of them; the last row has what the sums of a channel begin with."""
    weights, zero = convolution.weights, convolution.weights_zero
    if weights.constant is None or weights.type not in (Scalar.INT8, Scalar.UINT8):
        return None
    plain = weights.constant.astype(np.int64) - zero
    if plain.min() < -128 or plain.max() > 127:
        return None

    def pack(_: np.ndarray) -> np.ndarray:
        channels = plain.shape[-1]
        taps = padded(plain.astype(np.int8).reshape(-1, channels), 0, 4, 0)
        words = np.ascontiguousarray(taps.reshape(-1, 4, channels).transpose(0, 2, 1)).view(np.int32)
        start = -convolution.input_zero * plain.reshape(-1, channels).sum(axis=0)
        return np.concatenate([words[:, :, 0], start[None].astype(np.int32)])

    return packed(weights, ("words of taps", zero, convolution.input_zero), pack)


def _fragments(right: Value, columns: int, steps: int) -> Value:
    """A matrix in the order in which tensor cores take it: for each 16 columns and 32 bytes of the depth 16 bytes for each work-item.

    Two multiplications take eight columns each; the sums of columns 4 t and 4 t + 1 are those of the first one, and the other two
    those of the second one, that the same work-item gets.

    Args:
        right: columns side by side.
        columns: at least as many as the matrix has, a multiple of 16.
        steps: so many times 32 bytes.
    """
    size = right.type.size_bytes

    def pack(array: np.ndarray) -> np.ndarray:
        whole = np.zeros((columns, steps * PART_BYTES // size), array.dtype)
        _, given, depth = array.shape
        depth = min(depth, whole.shape[1])
        whole[:given, :depth] = array[0, :, :depth]
        # Columns: 16, four, two multiplications, two. The depth: 32 bytes, halves of them, four bytes.
        cut = whole.reshape(columns // 16, 4, 2, 2, steps, 2, 4, 4 // size)
        return cut.transpose(0, 4, 1, 3, 6, 2, 5, 7).reshape(columns // 16, steps, -1)

    return packed(right, ("fragments", columns, steps), pack)


def _sources(block: Block, operands: _Operands, facts: DeviceFacts) -> Iterator[Source]:
    parts = _steps(block.narrow.columns, _COLUMNS)
    steps = _channel_parts(block)
    limit = min(_LOCAL_BYTES, facts.local_memory_bytes)
    most = 3 * facts.compute_units
    cuts = [
        _Cut(block=block, operands=operands, patch=patch, parts=each, shares=shares)
        for patch in patches(block.convolution, most_rows=_MOST_ROWS, most=most)
        for each in parts_of(parts)
        for shares in range(1, min(steps, _MOST_SHARES) + 1)
        if steps % shares == 0
    ]
    tried = sorted(
        (cut for cut in cuts if cut.tiles * cut.shares <= most and cut.registers <= _MOST_REGISTERS),
        key=lambda cut: cut.cost(facts),
    )
    fitting = (
        cut for cut in tried if cut.scratch_bytes <= limit and (cut.shares == 1 or cut.tiles <= MOST_TILES)
    )
    for cut in islice(fitting, _CHOICES):
        yield _source(cut, facts)


def _source(cut: _Cut, facts: DeviceFacts) -> Source:
    block, operands = cut.block, cut.operands
    weights = [
        operands.taps,
        _fragments(
            operands.narrow, cut.across * cut.parts * _COLUMNS, _steps(cut.channels * cut.shares, cut.each)
        ),
    ]
    source = block.convolution.input
    if block.wide is not None and operands.wide is not None:
        source = block.wide.left
        weights.append(_fragments(operands.wide, cut.channels * cut.shares, cut.wide_steps))
    used = dict.fromkeys(
        value for kernel in (*operands.before.values(), operands.project) for value in used_values(kernel)
    )
    values = arguments(block.project.output, (source, *weights), tuple(used))
    inner = replace(values, near=frozenset((*operands.of_channels, *operands.of_columns)))
    functions = {name: named(name, kernel, inner) for name, kernel in operands.before.items()}
    after = epilogue(operands.project, inner, is_vector=True, is_fetched=True)
    sums = _sums(cut)
    narrow = block.narrow
    fetched = "".join(
        f"  if (lid < $KC / 4 && k0 + lid * 4 < $CHANNELS)"
        f" {NAME}_{name}_fetch4(0, k0 + lid * 4, 1, {inner.handed_on}@SIZES);\n"
        for name, each in functions.items()
        if each.has_fetch
    )
    pieces = {
        "$PLACE": PLACE,
        "$SHARE_OF": share_text(narrow, split=cut.shares),
        "$WIDE_WEIGHTED": texts.WIDE_WEIGHTS if cut.wide_steps else "",
        "$CONSTANTS": _near(cut, values),
        "$PADDED": texts.REST if not narrow.is_integer and cut.depth_bytes % PART_BYTES else "",
        "$INPUT_COPIED": texts.COPIED if cut.wide_steps else texts.GIVEN,
        "$EXPANDED": texts.EXPANDED if cut.wide_steps else "",
        "$WIDE_PRODUCTS": _products(
            cut,
            STEP="k",
            SUMS="wide_sums",
            COUNT="$WIDE_PARTS",
            DEPTH="$WIDE_STEPS",
            FROM_PITCH="$NEAR_PITCH",
            RIGHT="wide_weights",
        ),
        "$PRODUCTS": _products(
            cut,
            STEP="min(slice + k * $KS, $SHARE_STEPS - 1)",
            SUMS="sums[i]",
            COUNT="$PARTS",
            DEPTH="$STEPS",
            FROM_PITCH="$WIDE_PITCH",
            RIGHT="weights",
        ),
        "$FETCHED": fetched,
        "$FETCH": fetch(narrow, after, sums),
        "$DEPTHWISE": _depthwise(cut),
        "$SUMMED": texts.SLICES + GATHERED if cut.narrow_warps.slices > 1 else texts.TOTALS,
    }
    text = texts.TEXT
    for name, piece in pieces.items():
        text = text.replace(name, piece)
    if narrow.is_integer:
        text = texts.TURNED + text
    if cut.is_twice:
        text = SPLITTING + text
    text = "".join((*map(_copy, sorted(cut.copies)), text))
    instruction = instruction_of(facts)
    assert instruction is not None  # noqa: S101 - every device with tensor cores has one
    is_signed = block.convolution.input.type is Scalar.INT8
    dot = dot_text(instruction, is_signed, True) if narrow.is_integer else ""
    head = values.parameters
    has_workspace = cut.shares > 1 and not cut.adds
    if has_workspace:
        head = head.replace("__global int *status", "__global uchar *workspace, __global int *status")
    whole = "".join(
        (
            *(each.text for each in functions.values()),
            after.text,
            adding.adding_text(operands.project, inner, facts) if cut.adds else "",
            dot,
            fill(text, **_names(cut, inner, sums)),
            finish(narrow, after, sums, split=cut.shares, adds=cut.adds),
        )
    )
    sizes: dict[str, int] = {**narrow.sizes, **after.sizes}
    for each in functions.values():
        sizes |= each.sizes
    sizes |= {
        "tiles": cut.tiles,
        "split": cut.shares,
        "zeros": int.from_bytes(bytes((block.convolution.input_zero & 255,)) * 4, "little", signed=True),
    }
    kinds = "bottleneck" if block.wide is not None else "depthwise and products"
    return Source(
        text=resolved(whole, head, sizes, is_shared=True),
        arguments=values.values,
        groups=cut.tiles * cut.shares,
        local_size=_ITEMS,
        scratch_bytes=cut.scratch_bytes,
        workspace_bytes=workspace_bytes(
            narrow, sums, tiles=cut.tiles, split=cut.shares if has_workspace else 1
        ),
        adds=cut.adds,
        has_barriers=True,
        label=f"tensor cores{', twice' if cut.is_twice else ''}, {kinds}, {cut.patch.lines} x {cut.patch.length} positions and {cut.parts * _COLUMNS} columns, split by {cut.shares}"
        f" and {cut.narrow_warps.slices}{', added' if cut.adds else ''}",
        operations=tuple(sorted({each for kernel in block.kernels for each in kernel.operations})),
    )


def _products(cut: _Cut, **names: str) -> str:
    """The text of `PRODUCTS` with its names, in their order."""
    lines = texts.PRODUCTS.splitlines(keepends=True)
    if cut.is_twice:
        text = "".join(lines).replace("@", "").replace("$PART[", "part[")
    else:
        text = "".join(line for line in lines if "@" not in line).replace("$PART[", "$SUMS[")
    for name, piece in names.items():
        text = text.replace(f"${name}", piece)
    return text


def _copy(count: int) -> str:
    """A function that copies so many bytes; only 16 can pass by the nearest cache."""
    return fill(texts.COPY, CACHE="cg" if count == 16 else "ca", BYTES=count)


def _near(cut: _Cut, values: Arguments) -> str:
    """Statements that bring constants of epilogues to local memory."""
    _, _, _, channels = cut.block.convolution.input.shape
    lines = []
    for value, at in cut.near_values[:-1]:
        is_wide = value in cut.operands.of_channels
        count = (cut.channels if is_wide else cut.parts * _COLUMNS) // 4
        # A loop would be written out several times, which is more code than there is to do.
        each = texts.SEVERAL if count > _ITEMS else texts.ONE
        lines.append(
            fill(
                texts.NEAR.replace("$EACH", each),
                NUMBER=values.values.index(value),
                KIND=stored(value.type),
                AT=at,
                FIRST="k0" if is_wide else "n0",
                COUNT=count,
                LIMIT=channels if is_wide else cut.block.narrow.columns,
                BYTES=4 * value.type.size_bytes,
                ITEMS=_ITEMS,
            )
        )
    return "".join(lines)


def _sums(cut: _Cut) -> Sums:
    """Where a work-item has the last sums."""
    warps, columns = cut.narrow_warps, cut.parts * _COLUMNS
    _, height, width, _ = cut.block.convolution.output.shape
    kind = "int" if cut.block.narrow.is_integer else "float"
    tiles = _steps(cut.patch.rows, 16)
    place = f"y = y0 + m_at / {cut.patch.length}, x = x0 + m_at % {cut.patch.length};"
    guard = f"m_at < {cut.patch.rows} && y < {height} && x < {width} && "
    row = f"(image * {height} + y) * {width} + x"
    if warps.slices > 1:
        found = gathered(kind, tiles * 16, columns, _ITEMS)
        before = f"{found.before} const int m_at = at / {columns}, {place}"
        return replace(found, before=before, guard=guard, row=row)
    parts = _steps(cut.parts, warps.across)
    down, across = f"e / {2 * parts} * {warps.down}", f"e / 2 % {parts} * {warps.across}"
    return Sums(
        kind=kind,
        count=_steps(tiles, warps.down) * parts * 2,
        items=_ITEMS,
        vector="totals[e]",
        before=f"const int m_at = (down + {down}) * 16 + g + e % 2 * 8, part = across + {across}, {place}",
        row=row,
        column="n0 + part * 16 + t * 4",
        guard=f"part < {cut.parts} && {guard}",
        is_first=f"e < {2 * parts} && e % 2 == 0",
    )


def _is_there(cut: _Cut) -> str:
    """Whether the depthwise convolution has an output at a place, where groups compute more than there is."""
    channels = cut.block.convolution.input.shape[3]
    is_whole = cut.channels * cut.shares == channels
    inside = cut.patch.inside("line", "x")
    return inside if is_whole else f"k0 + q * 4 < {channels} && {inside}"


def _depthwise(cut: _Cut) -> str:
    """Statements that compute `sum`: the window whose first position is at `from`."""
    row = cut.channels // 4 * cut.taps_each
    places = [position * cut.wide_pitch for position in cut.patch.taps()]
    if not cut.block.narrow.is_integer:
        read = (
            "*(__local const float4 *)({})" if cut.is_twice else "vload_half4(0, (__local const half *)({}))"
        )
        products = (
            multiply_add("float", "sum", read.format(f"from + {place}"), read.format(f"tap + {number * row}"))
            for number, place in enumerate(places)
        )
        return "\n".join(("      float4 sum = (float4)(0);", *(f"      {each}" for each in products)))
    lines = [f"      int4 sum = *(__local const int4 *)(tap + {(cut.tap_rows - 1) * row});"]
    for first in range(0, len(places), 4):
        taps = [f"*(__local const uint *)(from + {place})" for place in places[first : first + 4]]
        words = f"*(__local const uint4 *)(tap + {first // 4 * row})"
        if len(taps) == 1:
            lines.append(f"      sum = {NAME}_tap4(sum, {taps[0]}, {words});")
        else:
            several = ", ".join((*taps, *("0",) * (4 - len(taps))))
            lines.append(f"      sum = {NAME}_taps4(sum, (uint4)({several}), {words});")
    return "\n".join(lines)


def _names(cut: _Cut, values: Arguments, sums: Sums) -> dict[str, object]:
    block = cut.block
    kind = block.convolution.input.type
    wide, narrow = cut.wide_warps, cut.narrow_warps
    tiles, position_tiles = _steps(cut.patch.rows, 16), _steps(cut.patch.positions, 16)
    is_integer = block.narrow.is_integer
    vector = f"{stored(kind)}4" if is_integer else "float4"
    is_half = kind is Scalar.FLOAT16
    put = (
        "vstore_half4_rte(value, 0, (__local half *)to);" if is_half else f"*(__local {vector} *)to = value;"
    )
    return {
        **cut.patch.names,
        "T": sums.kind,
        "VALUE": vector,
        "PUT": put,
        "FILL": f"as_{vector}(z_zeros)" if is_integer else "(float4)(0)",
        "HOLD": "r" if is_integer else "f",
        "MULTIPLY": MULTIPLY[kind],
        "HANDED_ON": values.handed_on,
        "WAIT": WAIT,
        "ITEMS": _ITEMS,
        "SIZE": cut.size,
        "KC": cut.channels,
        "IS_THERE": _is_there(cut),
        "PARTS_ACROSS": cut.across,
        "POSITION_TILES": position_tiles,
        "NEAR_AT": cut.near_at,
        "MIDDLE_AT": cut.middle_at,
        "TAPS_AT": cut.taps_at,
        "NEAR_PITCH": cut.near_pitch,
        "WIDE_PITCH": cut.wide_pitch,
        "TAPS_EACH": cut.taps_each,
        "TAP_ROWS": cut.tap_rows,
        "DEPTH_BYTES": cut.depth_bytes,
        "COPY": cut.copied_bytes,
        "WIDE_ACROSS": wide.across,
        "WIDE_DOWN": wide.down,
        "WIDE_TILES": _steps(position_tiles, wide.down),
        "WIDE_PARTS": _steps(cut.channels // _COLUMNS, wide.across),
        "WIDE_STEPS": cut.wide_steps,
        "ACROSS": narrow.across,
        "DOWN": narrow.down,
        "KS": narrow.slices,
        "TILES": _steps(tiles, narrow.down),
        "PARTS": _steps(cut.parts, narrow.across),
        "STEPS": _steps(cut.narrow_steps, narrow.slices),
        "SHARE_STEPS": cut.narrow_steps,
        "ALL_STEPS": cut.narrow_steps * cut.shares,
        "BM": tiles * 16,
        "BN": cut.parts * _COLUMNS,
        "NE": sums.count,
    }
