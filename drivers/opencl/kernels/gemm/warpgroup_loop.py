"""PTX of the loop over the steps of a warpgroup product, whose multiplications overlap.

Accumulators of instructions that are under way must not be touched, not even moved to other
registers. Compilers of C do not know that, so that the whole loop is one statement of inline
assembly. It requires a left matrix whose rows are contiguous, and packed blocks of the right one.
"""

from dataclasses import dataclass

from neurald.drivers.opencl.platform.retargeting import HIDDEN


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopShape:
    """The properties that the text depends on.

    Attributes:
        multiply: the instruction, with `{sums}`, `{left}` and `{right}`.
        count: accumulators of a work-item for 64 rows.
        blocks: the number of times that a warpgroup has 64 rows.
        copies: chunks of the left matrix that a work-item copies in a step.
        copy_pitch: bytes between them in local memory.
        left_bytes, step_bytes: the size of a step of the left matrix, and of both.
        row_bytes: bytes of a row in a step; a part of the instruction has `part_bytes`.
        column_blocks, block_bytes: the blocks of the right matrix in a step, and their size.
        stages: the number of steps in local memory.
        descriptor: the descriptor of a matrix, without its address.
    """

    multiply: str
    count: int
    blocks: int
    copies: int
    copy_pitch: int
    left_bytes: int
    step_bytes: int
    row_bytes: int
    part_bytes: int
    column_blocks: int
    block_bytes: int
    stages: int
    descriptor: int

    @property
    def ahead(self) -> int:
        """Steps that are copied ahead: the one before the step may still be read."""
        return self.stages - 2


def loop_lines(shape: LoopShape) -> list[str]:
    """Returns the instructions, of which some are hidden.

    The operands are the accumulators, the address of each chunk of step `ahead` of the left matrix
    and its size in bytes, then:
    the address in local memory of all steps, of the chunks that this work-item copies and of the 64
    rows of its warpgroup in the first one, and of the counters; the number of steps; the bytes of a
    row from this work-item's chunk on; the address of step `ahead` of the right matrix, the bytes
    between its blocks, and how many of them there are, 0 for a work-item that does not copy them.
    """
    sums = shape.count * shape.blocks
    names = [f"%{number}" for number in range(sums + 2 * shape.copies + 9)]
    addresses, sizes = (names[sums + first * shape.copies :][: shape.copies] for first in (0, 1))
    steps_at, chunks_at, rows_at, counters_at, steps, row_bytes, right, pitch, blocks = names[-9:]
    copied = [f"mov.b64 from{each}, {address};" for each, address in enumerate(addresses)]
    return [
        "{",
        ".reg .pred p, more, copies;",
        ".reg .b32 step, stage, phase, at, rows, next, to, counter, size, offset, bytes;",
        ".reg .b64 left, right, first_left, first_right, blocks, block, "
        + _names("from", shape.copies)
        + ";",
        *copied,
        f"mov.b64 blocks, {right};",
        "mov.b32 step, 0;",
        "mov.b32 stage, 0;",
        "mov.b32 phase, 0;",
        f"mov.b32 offset, {shape.ahead * shape.row_bytes};",
        f"mul.lo.u32 bytes, {blocks}, {shape.block_bytes};",
        "NEXT_STEP:",
        f"cp.async.wait_group {shape.ahead - 1};",
        "shl.b32 counter, stage, 3;",
        f"add.u32 counter, counter, {counters_at};",
        "AWAIT:",
        "mbarrier.try_wait.parity.shared.b64 p, [counter], phase;",
        "@!p bra AWAIT;",
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        f"mul.lo.u32 at, stage, {shape.step_bytes};",
        f"add.u32 rows, at, {rows_at};",
        *_description("first_left", "rows", 0, shape),
        f"add.u32 rows, at, {steps_at};",
        *_description("first_right", "rows", shape.left_bytes, shape),
        f"{HIDDEN} wgmma.fence.sync.aligned;",
        *_multiplications(shape, names),
        f"{HIDDEN} wgmma.commit_group.sync.aligned;",
        f"add.u32 next, step, {shape.ahead};",
        f"setp.lt.u32 more, next, {steps};",
        "@!more bra COPIED;",
        f"add.u32 next, stage, {shape.ahead};",
        f"setp.ge.u32 p, next, {shape.stages};",
        f"@p sub.u32 next, next, {shape.stages};",
        f"mul.lo.u32 at, next, {shape.step_bytes};",
        f"add.u32 to, at, {chunks_at};",
        f"setp.lt.s32 p, offset, {row_bytes};",
        *(
            line
            for each, given in enumerate(sizes)
            for line in (
                f"selp.b32 size, {given}, 0, p;",
                f"cp.async.cg.shared.global [to+{each * shape.copy_pitch}], [from{each}], 16, size;",
                f"add.u64 from{each}, from{each}, {shape.row_bytes};",
            )
        ),
        f"setp.ne.u32 copies, {blocks}, 0;",
        "@!copies bra COPIED;",
        "shl.b32 counter, next, 3;",
        f"add.u32 counter, counter, {counters_at};",
        "mbarrier.arrive.expect_tx.shared.b64 _, [counter], bytes;",
        f"add.u32 to, at, {steps_at};",
        "mov.b64 block, blocks;",
        *(
            line
            for each in range(shape.column_blocks)
            for line in (
                f"setp.gt.u32 p, {blocks}, {each};",
                "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                f" [to+{shape.left_bytes + each * shape.block_bytes}], [block], {shape.block_bytes}, [counter];",
                f"add.u64 block, block, {pitch};",
            )
        ),
        f"add.u64 blocks, blocks, {shape.block_bytes};",
        "COPIED:",
        "cp.async.commit_group;",
        f"add.u32 offset, offset, {shape.row_bytes};",
        f"{HIDDEN} wgmma.wait_group.sync.aligned 1;",
        "add.u32 step, step, 1;",
        "add.u32 stage, stage, 1;",
        f"setp.eq.u32 p, stage, {shape.stages};",
        "@p mov.b32 stage, 0;",
        "@p xor.b32 phase, phase, 1;",
        f"setp.lt.u32 p, step, {steps};",
        "@p bra NEXT_STEP;",
        f"{HIDDEN} wgmma.wait_group.sync.aligned 0;",
        "}",
    ]


def _names(name: str, count: int) -> str:
    return ", ".join(f"{name}{number}" for number in range(count))


def _description(name: str, address: str, offset: int, shape: LoopShape) -> list[str]:
    """Returns the instructions that describe a matrix at an address and an offset."""
    return [
        f"add.u32 size, {address}, {offset};",
        "and.b32 size, size, 0x3ffff;",
        "shr.u32 size, size, 4;",
        f"cvt.u64.u32 {name}, size;",
        f"or.b64 {name}, {name}, {shape.descriptor:#x};",
    ]


def _multiplications(shape: LoopShape, names: list[str]) -> list[str]:
    lines = ["setp.eq.u32 p, 0, 0;"]
    for block in range(shape.blocks):
        sums = ", ".join(names[block * shape.count : (block + 1) * shape.count])
        for part in range(shape.row_bytes // shape.part_bytes):
            # Addresses in a description count 16 bytes.
            at = part * shape.part_bytes // 16
            rows = at + block * 64 * shape.row_bytes // 16
            multiply = shape.multiply.format(sums=f"{{{sums}}}", left="left", right="right")
            lines += [
                f"add.u64 left, first_left, {rows};",
                f"add.u64 right, first_right, {at};",
                f"{HIDDEN} {multiply}",
            ]
    return lines
