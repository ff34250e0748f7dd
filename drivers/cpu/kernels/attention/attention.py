"""Attention: two matrix products and the rows between them, for a block of rows at a time.

For each batch, keys and values are packed to panels where they cannot be read in place. The scores
of a block are written to scratch memory, scaled and masked; weights replace them row by row while
they are in the cache, and are then multiplied by the values.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Expression, Load
from neurald.drivers.compiler.ir.extents.extent import at_least, is_one
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import Epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.attention.plan import (
    FLOAT_BYTES,
    AttentionPlan,
    BlockProduct,
    Factor,
    plans_of,
)
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.routine_cache import shared_routine
from neurald.drivers.cpu.kernels.common.window import tap_segments
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.kernels.gemm.micro_kernel import FloatMicroKernel, TileShape, WeightLayout
from neurald.drivers.cpu.kernels.gemm.operand_packing import copy_panel_at_run_time, pack_panel_at_run_time
from neurald.drivers.cpu.kernels.row_wise.rows import RowWriter, steps_of
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

_ALIGNMENT = 64
#: Writes the elements of some channels of a row, given their sums: row, channel, number of lanes.
_Write = Callable[[str, str, str, int], None]


def fits(kernel: Kernel, target: Target) -> bool:
    """Returns True if there is a routine for an attention kernel."""
    node = kernel.contraction
    if not isinstance(node, Attention):
        return False
    types = {node.scores.type, kernel.output.type, *(each.type for each in node.roots)}
    return types == {Scalar.FLOAT32} and bool(plans_of(kernel, node, target))


def routine(kernel: Kernel, node: Attention, target: Target) -> Routine:
    """Returns the routine of an attention kernel.

    Args:
        kernel: see `fits`.
        node: its attention.
        target: the target of the code.
    """
    loaded = (each.value for each in walk(*kernel.roots) if isinstance(each, Load))
    arguments = tuple(dict.fromkeys((kernel.output, *node.inputs, *loaded)))
    return shared_routine(kernel, arguments, target, lambda: _new_routine(kernel, node, arguments, target))


def _new_routine(kernel: Kernel, node: Attention, arguments: tuple[Value, ...], target: Target) -> Routine:
    plan, *others = plans_of(kernel, node, target)
    code, pointers = Instructions(parameter_names(arguments)), pointer_names(arguments)
    writer = _Writer(plan, kernel, target, code, pointers)
    work_items, scratch_bytes = plan.batches * plan.blocks, writer.scratch_bytes
    if not others:
        writer.write()
    for few in others:
        rows = node.axes[1].extent
        other = _Writer(few, kernel, target, code, pointers)
        has_enough = code.value(f"icmp sge i64 {rows}, {plan.block}")
        with code.when(has_enough):
            writer.write()
        with code.when(code.value(f"xor i1 {has_enough}, true")):
            other.write()
        is_used = at_least(rows, plan.block)
        work_items = is_used * work_items + (1 - is_used) * few.batches * few.blocks
        scratch_bytes = is_used * scratch_bytes + (1 - is_used) * other.scratch_bytes
    products = plan.first.tile.cycles + plan.second.tile.cycles
    elements = plan.block * plan.tile.shape[1] / target.lanes(FLOAT_BYTES) * steps_of(plan.rows)
    packed = plan.batches * (plan.first.packed_bytes + plan.second.packed_bytes) / FLOAT_BYTES
    cycles = plan.batches * plan.blocks * (products + elements) + packed
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=work_items,
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        scratch_bytes=scratch_bytes,
        label=f"attention, {plan.block} rows of {plan.rows.length}",
        operations=kernel.operations,
    )


class _Writer:
    """Writes the function; a work item is a block of rows of a batch."""

    def __init__(
        self,
        plan: AttentionPlan,
        kernel: Kernel,
        target: Target,
        code: Instructions,
        pointers: Mapping[Value, str],
    ) -> None:
        self._plan, self._kernel, self._target, self._code = plan, kernel, target, code
        self._pointers = pointers
        self._single = Vector(code, target, 1)
        self._epilogue = Epilogue(kernel, target, code, pointers)
        self._varying: dict[Expression, bool] = {}
        self.scratch_bytes = 0
        self._keys = self._memory(plan.first.packed_bytes)
        self._values = self._memory(plan.second.packed_bytes)
        rows = plan.block * plan.pitch * FLOAT_BYTES
        self._scores = self._memory(rows)
        is_apart = plan.keeps_scores and plan.factor is None
        self._weights = self._memory(rows) if is_apart else self._scores
        self._factors = self._memory(plan.block * FLOAT_BYTES if plan.factor is not None else 0)
        query = plan.first.product.pixel_bytes * plan.block if plan.copies_query else 0
        self._queries = self._memory(query)
        # The number of kept elements does not depend on the memory's address.
        kept = RowWriter(plan.rows, target, code, pointers).scratch_bytes
        self._kept = self._memory(0 if plan.factor is not None else kept)

    def _memory(self, size: int) -> str:
        """Returns the address of new scratch memory."""
        start = self.scratch_bytes
        self.scratch_bytes += -(-size // _ALIGNMENT) * _ALIGNMENT
        return "%scratch" if not start else self._code.value(f"getelementptr i8, ptr %scratch, i64 {start}")

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        code, plan = self._code, self._plan
        rows = plan.node.axes[1].extent
        with each_work_item(code, (plan.batches, plan.blocks)) as ((batch, block), number):
            if plan.first.is_packed or plan.second.is_packed:
                is_first = code.value(f"icmp eq i64 {number}, 0")
                is_new = code.value(f"icmp eq i64 {block}, 0")
                with code.when(code.value(f"or i1 {is_first}, {is_new}")):
                    self._pack(plan.first, self._keys, batch)
                    self._pack(plan.second, self._values, batch)
            row = multiple(code, block, plan.block)
            if not is_one(plan.blocks):
                row = self._single.call("llvm.smin", "i64", row, str(rows - plan.block))
            self._write_scores(batch, row)
            self._write_weights(batch, row)

            def write(sums: str, local: str, channel: str, lanes: int) -> None:
                if plan.factor is not None:
                    at = address(code, self._factors, multiple(code, local, FLOAT_BYTES))
                    v = Vector(code, self._target, lanes)
                    factor = code.fresh(f"load float, ptr {at}, align {FLOAT_BYTES}")
                    sums = v.binary("fmul", "float", sums, v.splat("float", factor))
                self._epilogue.write(sums, (batch, total(code, row, local), channel), lanes)

            self._multiply(plan.second, self._values, self._weights, batch, write)

    def _start(self, factor: Factor, batch: str) -> str:
        """Returns the address of a batch's matrix."""
        offset = self._statements({}, batch).value(factor.start)
        return address(self._code, self._pointers[factor.value], multiple(self._code, offset, FLOAT_BYTES))

    def _statements(self, names: Mapping[Expression, str], batch: str) -> Statements:
        known = {self._plan.node.axes[0]: batch, **names}
        return Statements(self._code, self._target, self._pointers, known)

    def _pack(self, of: BlockProduct, memory: str, batch: str) -> None:
        """Packs the right operand of a batch to panels."""
        if not of.is_packed:
            return
        code, start = self._code, self._start(of.right, batch)
        with self._each_panel(of) as (panel, channel):
            source = address(code, start, multiple(code, channel, of.right.outer * FLOAT_BYTES))
            to = address(code, memory, multiple(code, panel, of.panel_bytes))
            write = copy_panel_at_run_time if of.right.outer == 1 else pack_panel_at_run_time
            write(code, self._target, of.product, of.tile, source, to)

    @contextmanager
    def _each_panel(self, of: BlockProduct) -> Iterator[tuple[str, str]]:
        """Writes a loop over panels; yields the number of a panel and its first channel."""
        with self._code.loop("0", str(of.tile.panels)) as loop:
            channel = multiple(self._code, loop.index, of.tile.width)
            if not is_one(of.tile.panels):
                last = str(of.product.channels - of.tile.width)
                channel = self._single.call("llvm.smin", "i64", channel, last)
            yield loop.index, channel

    def _write_scores(self, batch: str, row: str) -> None:
        """Writes the scores of a block to scratch memory."""
        code, plan = self._code, self._plan
        b, m, n, _, _ = plan.node.axes
        source = address(
            code, self._start(plan.query, batch), multiple(code, row, plan.query.outer * FLOAT_BYTES)
        )
        if plan.copies_query:
            self._copy_queries(source)
            source = self._queries
        sums = [each for each in walk(plan.node.score) if isinstance(each, AccumulatorRef)]

        def write(found: str, local: str, channel: str, lanes: int) -> None:
            names: dict[Expression, str] = {
                b: batch,
                m: total(code, row, local),
                n: channel,
                plan.local: local,
            }
            statements = Statements(
                code,
                self._target,
                self._pointers,
                {**names, **dict.fromkeys(sums, found)},
                lanes=VectorLanes.across(Vector(code, self._target, lanes), n, varying=self._varying),
            )
            statements.store(self._scores, plan.local * plan.pitch + n, plan.node.score)

        self._multiply(plan.first, self._keys, source, batch, write)

    def _copy_queries(self, source: str) -> None:
        """Copies the queries of a block, so that its rows do not evict each other."""
        code, plan = self._code, self._plan
        terms, query = plan.first.product.terms, plan.query
        v = Vector(code, self._target, min(self._target.lanes(FLOAT_BYTES), 1 << (terms.bit_length() - 1)))
        lanes = v.lanes if query.inner == 1 else 1
        v = Vector(code, self._target, lanes)
        with code.loop("0", str(plan.block)) as row, code.loop("0", str(terms), step=lanes) as loop:
            term = loop.index
            if terms % lanes:
                term = self._single.call("llvm.smin", "i64", term, str(terms - lanes))
            at = address(
                code,
                source,
                multiple(code, row.index, query.outer * FLOAT_BYTES),
                multiple(code, term, query.inner * FLOAT_BYTES),
            )
            to = address(
                code,
                self._queries,
                multiple(code, row.index, plan.first.product.pixel_bytes),
                multiple(code, term, FLOAT_BYTES),
            )
            loaded = code.fresh(f"load {v.type('float')}, ptr {at}, align {FLOAT_BYTES}")
            code.effect(f"store {v.type('float')} {loaded}, ptr {to}, align {FLOAT_BYTES}")

    def _write_weights(self, batch: str, row: str) -> None:
        """Writes the weights of a block to scratch memory."""
        code, plan = self._code, self._plan
        b, m, n, _, _ = plan.node.axes
        # A name of its own keeps loads behind the stores of the scores.
        scores = code.fresh(f"getelementptr i8, ptr {self._scores}, i64 0")
        pointers = {**self._pointers, plan.tile: scores}
        writer = RowWriter(plan.rows, self._target, code, pointers, self._kept)
        offset = plan.local * plan.pitch + n
        body = plan.rows.kernel.body
        with code.loop("0", str(plan.block)) as loop:
            names: dict[Expression, str] = {
                b: batch,
                m: total(code, row, loop.index),
                plan.local: loop.index,
            }
            if plan.factor is not None:
                at = address(code, scores, multiple(code, loop.index, plan.pitch * FLOAT_BYTES))
                writer = RowWriter(plan.rows, self._target, code, pointers, at, replaced_by=plan.scale)
                known = writer.reduced(names)
                factor = Statements(code, self._target, pointers, known).value(plan.factor / plan.scale)
                to = address(code, self._factors, multiple(code, loop.index, FLOAT_BYTES))
                code.effect(f"store float {factor}, ptr {to}, align {FLOAT_BYTES}")
            else:
                writer.write(names, lambda statements: statements.store(self._weights, offset, body))

    def _multiply(self, of: BlockProduct, packed: str, source: str, batch: str, write: _Write) -> None:
        """Writes the product of a block of rows with all channels."""
        code, product, tile = self._code, of.product, of.tile
        weights = self._layout(of, packed, batch)
        kernel = FloatMicroKernel(
            code, self._target, product, tile, weights, tiles=0, prefetches_inputs=False
        )
        rows = product.columns.positions
        parts = -(-rows // tile.positions)
        height = -(-rows // parts)
        shape = TileShape(
            rows=1,
            columns=height,
            row_segments=tap_segments((product.rows.taps_at(0),)),
            column_segments=tap_segments((range(1),) * height),
        )
        zeros = [Vector(code, self._target, tile.lanes).number("float", 0)] * tile.vectors
        with self._each_panel(of) as (panel, channel):
            memory = address(
                code,
                weights.pointer,
                multiple(code, panel, weights.panel_bytes),
                multiple(code, channel, weights.channel_bytes),
            )
            with code.loop("0", str(parts)) as loop:
                first = multiple(code, loop.index, height)
                if rows % height:
                    first = self._single.call("llvm.smin", "i64", first, str(rows - height))
                start = address(code, source, multiple(code, first, product.pixel_bytes))
                sums = kernel.accumulate(shape, zeros, start, (memory, memory), "0")
                for position in range(height):
                    for each, offset in enumerate(tile.offsets(product.channels)):
                        write(
                            sums[position * tile.vectors + each],
                            total(code, first, str(position)),
                            total(code, channel, str(offset)),
                            tile.lanes,
                        )

    def _layout(self, of: BlockProduct, packed: str, batch: str) -> WeightLayout:
        """Returns the memory layout of a product's right operand."""
        tile = of.tile
        lanes_bytes = tile.lanes * FLOAT_BYTES
        if of.is_packed:
            vectors = tuple(each * lanes_bytes for each in range(tile.vectors))
        else:
            vectors = tuple(each * FLOAT_BYTES for each in tile.offsets(of.product.channels))
        return WeightLayout(
            pointer=packed if of.is_packed else self._start(of.right, batch),
            type=of.product.type,
            set_bytes=0,
            panel_bytes=of.panel_bytes if of.is_packed else 0,
            term_bytes=tile.width * FLOAT_BYTES if of.is_packed else of.right.inner * FLOAT_BYTES,
            channel_bytes=0 if of.is_packed else FLOAT_BYTES,
            vectors=vectors,
            align=lanes_bytes if of.is_packed else FLOAT_BYTES,
            is_panel_major=True,
        )
