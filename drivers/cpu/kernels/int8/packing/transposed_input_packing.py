"""Packs transposed left matrices: rows of the matrix are terms, and its columns are positions."""

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.common.transposed_registers import transposed
from neurald.drivers.cpu.kernels.int8.layout import ALIASED_BYTES, BlockLayout
from neurald.drivers.cpu.kernels.int8.packing.word_packing import WordPacking
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.hal.records import replace


def transposed_plan(plan: ProductPlan) -> ProductPlan:
    """Returns the plan for a left matrix that is transposed when it is packed, all at once.

    Packed positions begin at multiples of a vector, since vectors are stored.
    """
    elements = plan.scheme.target.vector_bytes // plan.scheme.element_bytes
    pixel = -(-plan.layout.channels // elements) * elements
    pixel += elements if pixel * plan.scheme.element_bytes % ALIASED_BYTES == 0 else 0
    layout = replace(
        plan.layout,
        pixel_elements=pixel,
        row_elements=pixel,
        is_direct=False,
        block=plan.units * plan.rows,
    )
    return replace(plan, block=plan.units, layout=layout)


class TransposedInputPacker:
    """Writes the packing of a transposed matrix; its interface is that of `InputPacker`.

    Args:
        code: receives the instructions.
        layout: the layout of packed inputs; its rows are positions, and its channels are terms.
        source: name of the input's memory.
        zero: the input's zero point.
    """

    def __init__(self, code: Instructions, layout: BlockLayout, *, source: str, zero: int) -> None:
        self._code, self._layout, self._source = code, layout, source
        self._packing = WordPacking(
            scheme=layout.scheme.of_steps,
            type=layout.type,
            zero=zero,
            is_signed=layout.scheme.has_signed_inputs,
        )

    def write(self, image: str, begin: str, end: str) -> str:
        """Packs the inputs for a matrix's positions from `begin` to before `end`.

        Returns:
            The address of the first position.
        """
        code, layout, terms = self._code, self._layout, self._layout.channels
        single, lanes = Vector(code, layout.scheme.target, 1), layout.scheme.lanes
        positions = layout.rows.length
        matrix = address(code, self._source, multiple(code, image, positions * terms))
        with code.loop(begin, end, step=lanes, may_be_empty=True) as loop:
            # The last vector overlaps the one before, perhaps beyond the first position.
            first = single.call("llvm.smin", "i64", loop.index, str(max(0, positions - lanes)))
            source = address(code, matrix, first)
            to = address(code, "%scratch", multiple(code, first, layout.row_bytes))
            step = self._packing.terms
            whole, rest = divmod(terms, step)
            if whole:
                with code.loop("0", str(whole)) as turns:
                    at = address(code, source, multiple(code, turns.index, step * positions))
                    into = address(code, to, multiple(code, turns.index, layout.scheme.target.vector_bytes))
                    self._pack_square(at, into, step)
            if rest:
                at = address(code, source, str(whole * step * positions))
                self._pack_square(at, address(code, to, str(whole * layout.scheme.target.vector_bytes)), rest)
        return address(code, "%scratch", multiple(code, begin, layout.row_bytes))

    def _pack_square(self, source: str, to: str, count: int) -> None:
        """Packs `count` terms of a vector of positions."""
        code, layout, packing = self._code, self._layout, self._packing
        scheme, positions = packing.scheme, layout.rows.length
        known = min(scheme.lanes, positions)
        words = []
        for first in range(0, count, scheme.group):
            rows = [
                packing.load(code, address(code, source, str(term * positions)), known, scheme.lanes)
                for term in range(first, min(first + scheme.group, count))
            ]
            words.append(packing.of_rows(code, rows))
        words += ["zeroinitializer"] * (scheme.lanes - len(words))
        for number, row in enumerate(transposed(code, "i32", words)[:known]):
            at = address(code, to, str(number * layout.row_bytes))
            code.effect(f"store <{scheme.lanes} x i32> {row}, ptr {at}, align {scheme.target.vector_bytes}")
