"""Large attention by instructions of whole warpgroups (`wgmma`) of NVIDIA's Hopper, in FLOAT16.

A warpgroup has 64 rows, a group one or two warpgroups. Queries, and the keys and values of a step,
are copied to local memory, with chunks swizzled as the instruction expects them; it reads both
factors of the scores from there. Scores come as accumulators in the order in which the second
product reads its left matrix, so that weights never leave the registers. The instruction reads
values transposed. The next step is copied while a step is multiplied.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.template import templates
from neurald.drivers.opencl.kernels.attention.attention_view import AttentionView, store2_text
from neurald.drivers.opencl.kernels.group_exchange import OTHER
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.retargeting import HIDDEN

_TEMPLATES = templates(__name__, "warpgroup.cl")
_CAPABILITY = (9, 0)
#: Attentions of fewer multiplications have too few groups.
_MIN_MULTIPLICATIONS = 1 << 26
#: Work-items of a warpgroup, and its rows.
_WARPGROUP, _ROWS = 128, 64
#: Bytes of a row in a block of local memory, elements of it, and bytes of eight rows.
_BLOCK_BYTES, _BLOCK, _EIGHT_ROWS = 128, 64, 1024
#: Depth that an instruction multiplies, in elements.
_PART = 16
#: Local memory and registers of a compute unit.
_UNIT_LOCAL_BYTES, _UNIT_REGISTERS = 227 * 1024, 1 << 16
_MAX_REGISTERS = 232
#: Warpgroups of a group, and limits on the columns of a step.
_WARPGROUPS, _COLUMNS = (1, 2), (64, 96, 128, 256)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tiling:
    """Tiling of an attention.

    Attributes:
        warpgroups: the warpgroups of a group.
        columns: the columns of a step.
        steps: the number of steps.
        depth_blocks, feature_blocks: blocks of 128 bytes of queries and of values.
        features: the features of a batch, rounded up to a multiple of 8.
    """

    warpgroups: int
    columns: int
    steps: int
    depth_blocks: int
    feature_blocks: int
    features: int

    @property
    def rows(self) -> int:
        return _ROWS * self.warpgroups

    @property
    def stages(self) -> int:
        return min(2, self.steps)

    @property
    def key_bytes(self) -> int:
        return self.columns * self.depth_blocks * _BLOCK_BYTES

    @property
    def step_bytes(self) -> int:
        """Bytes of keys and values, such that steps begin where the swizzle does."""
        values = self.columns * self.feature_blocks * _BLOCK_BYTES
        return -(-(self.key_bytes + values) // _EIGHT_ROWS) * _EIGHT_ROWS

    @property
    def query_bytes(self) -> int:
        return self.rows * self.depth_blocks * _BLOCK_BYTES

    @property
    def slab_pitch(self) -> int:
        """Floats between rows of the result in local memory, for begins at different banks."""
        return self.features + 8

    @property
    def scratch_bytes(self) -> int:
        return max(self.query_bytes + self.stages * self.step_bytes, self.rows * self.slab_pitch * 4)

    @property
    def registers(self) -> int:
        """Estimate for a work-item."""
        return self.columns * 5 // 8 + self.features // 2 + 44

    @property
    def resident(self) -> int:
        """Groups that a compute unit holds together."""
        by_registers = _UNIT_REGISTERS // (self.warpgroups * _WARPGROUP * self.registers)
        return max(1, min(by_registers, _UNIT_LOCAL_BYTES // (self.scratch_bytes + 1024)))


def candidates(view: AttentionView, facts: DeviceFacts) -> Iterator[Source]:
    """Yields every suitable tiling, the best first.

    There are none for small attentions, and for operands that cannot be copied 16 bytes at a time.
    """
    operands = (view.query, view.key, view.value)
    multiplications = view.batches * view.rows * view.columns * (view.depth + view.features)
    if not facts.is_nvidia or facts.compute_capability != _CAPABILITY:
        return
    if multiplications < _MIN_MULTIPLICATIONS or view.depth % 8 or view.features % 8:
        return
    if not all(each.value.type is Scalar.FLOAT16 and each.is_aligned for each in operands):
        return
    tilings = dict.fromkeys(
        _tiling(view, warpgroups, most) for warpgroups in _WARPGROUPS for most in _COLUMNS
    )
    fitting = [
        each
        for each in tilings
        if each.scratch_bytes <= _UNIT_LOCAL_BYTES and each.registers <= _MAX_REGISTERS
    ]
    for tiling in sorted(fitting, key=lambda each: _cost(each, view, facts)):
        yield _source(view, tiling)


def _tiling(view: AttentionView, warpgroups: int, most: int) -> _Tiling:
    """Returns a tiling with steps of equal size, each of at most that many columns."""
    steps = math.ceil(view.columns / most)
    return _Tiling(
        warpgroups=warpgroups,
        columns=math.ceil(view.columns / steps / _PART) * _PART,
        steps=steps,
        depth_blocks=math.ceil(view.depth / _BLOCK),
        feature_blocks=math.ceil(view.features / _BLOCK),
        features=math.ceil(view.features / 8) * 8,
    )


def _cost(tiling: _Tiling, view: AttentionView, facts: DeviceFacts) -> float:
    """Estimates the time in cycles of a compute unit."""
    groups = view.batches * math.ceil(view.rows / tiling.rows)
    resident = min(tiling.resident, math.ceil(groups / facts.compute_units))
    waves = groups / (facts.compute_units * resident)
    scores = tiling.rows * tiling.columns
    multiplied = scores * (view.depth + view.features) / 2048
    # Some ten instructions for each score.
    busy = max(multiplied, scores * 10 / 128, tiling.step_bytes / 34)
    alone = multiplied + scores * 10 / 128 + 700
    return max(1.0, waves) * (tiling.steps * max(alone, resident * busy) + 2500)


def _source(view: AttentionView, tiling: _Tiling) -> Source:
    count, sums = tiling.columns // 2, tiling.features // 2
    return view.source(
        _TEMPLATES["function"],
        rows=tiling.rows,
        local_size=tiling.warpgroups * _WARPGROUP,
        scratch_bytes=tiling.scratch_bytes,
        is_retargeted=True,
        label=f"attention by warpgroups, {tiling.rows} rows, {tiling.columns} columns",
        names={
            "TEXT": view.text + store2_text(view),
            "OTHER": OTHER,
            "BN": tiling.columns,
            "STAGES": tiling.stages,
            "STEP": tiling.step_bytes,
            "STEPS": tiling.steps,
            "DEPTH_CHUNKS": math.ceil(view.depth / _PART) * 2,
            "FEATURE_CHUNKS": tiling.features // 8,
            "FIRST_BYTES": tiling.query_bytes,
            "KEY_BYTES": tiling.key_bytes,
            "COUNT": count,
            "SUMS": sums,
            "SLAB_PITCH": tiling.slab_pitch,
            "SCORING": _strings(_scoring(view, tiling)),
            "SCORES": ", ".join(f'"=&f"(scores[{number}])' for number in range(count)),
            "WEIGHING": _strings(_weighing(tiling)),
            "WEIGHTED": ", ".join(f'"+f"(sums[{number}])' for number in range(sums)),
            "WEIGHTS": ", ".join(f'"r"(weights[{number}])' for number in range(count // 2)),
        },
    )


def _strings(lines: list[str]) -> str:
    return "\n               ".join(f'"{line}\\n"' for line in lines)


def _described(name: str, address: str, leading_bytes: int) -> list[str]:
    """Returns the instructions that describe a matrix at an address.

    The description says that chunks are swizzled by 128 bytes, and has the distance of eight rows;
    if its rows are along the depth, also that of blocks of 128 bytes.
    """
    rest = 1 << 62 | (_EIGHT_ROWS >> 4) << 32 | (leading_bytes >> 4) << 16
    return [
        f"and.b32 address, {address}, 0x3ffff;",
        "shr.u32 address, address, 4;",
        f"cvt.u64.u32 {name}, address;",
        f"or.b64 {name}, {name}, {rest:#x};",
    ]


def _scoring(view: AttentionView, tiling: _Tiling) -> list[str]:
    """Returns the instructions that multiply queries and keys.

    The operands are the scores, which they clear, and the addresses of both matrices.
    """
    count = tiling.columns // 2
    scores = ", ".join(f"%{number}" for number in range(count))
    lines = [
        "{ .reg .pred p; .reg .b32 address; .reg .b64 left, right, first_left, first_right;",
        *_described("first_left", f"%{count}", 16),
        *_described("first_right", f"%{count + 1}", 16),
        f"{HIDDEN} wgmma.fence.sync.aligned;",
        "setp.ne.u32 p, 0, 0;",
    ]
    for part in range(math.ceil(view.depth / _PART)):
        block, inside = divmod(part * _PART * 2, _BLOCK_BYTES)
        # Addresses in a description count 16 bytes.
        left, right = ((block * rows * _BLOCK_BYTES + inside) // 16 for rows in (tiling.rows, tiling.columns))
        lines += [
            f"add.u64 left, first_left, {left};",
            f"add.u64 right, first_right, {right};",
            f"{HIDDEN} wgmma.mma_async.sync.aligned.m64n{tiling.columns}k16.f32.f16.f16 {{{scores}}}, "
            "left, right, p, 1, 1, 0, 0;",
        ]
        if part == 0:
            lines.append("setp.eq.u32 p, 0, 0;")
    return [*lines, *_finished()]


def _weighing(tiling: _Tiling) -> list[str]:
    """Returns the instructions that multiply weights and values.

    The operands are the sums that they add to, the weights, and the address of the values.
    """
    count, weights = tiling.features // 2, tiling.columns // 4
    sums = ", ".join(f"%{number}" for number in range(count))
    lines = [
        "{ .reg .pred p; .reg .b32 address; .reg .b64 right, first_right;",
        *_described("first_right", f"%{count + weights}", tiling.columns * _BLOCK_BYTES),
        f"{HIDDEN} wgmma.fence.sync.aligned;",
        "setp.eq.u32 p, 0, 0;",
    ]
    for part in range(tiling.columns // _PART):
        left = ", ".join(f"%{count + part * 4 + number}" for number in range(4))
        lines += [
            f"add.u64 right, first_right, {part * _PART * _BLOCK_BYTES // 16};",
            f"{HIDDEN} wgmma.mma_async.sync.aligned.m64n{tiling.features}k16.f32.f16.f16 {{{sums}}}, "
            f"{{{left}}}, right, p, 1, 1, 1;",
        ]
    return [*lines, *_finished()]


def _finished() -> list[str]:
    return [
        f"{HIDDEN} wgmma.commit_group.sync.aligned;",
        f"{HIDDEN} wgmma.wait_group.sync.aligned 0;",
        "}",
    ]
