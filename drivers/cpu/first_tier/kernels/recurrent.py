"""Writes steps of recurrent cells."""

from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.elements import curve
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.native.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

#: Of a cell, in the order of their products: input, forget, cell, output.
GATES = 4
_INPUT, _FORGET, _CELL, _OUTPUT = range(GATES)


def recurrent_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels for recurrent cells."""
    return [_lstm_step(target)]


def _lstm_step(target: Target) -> Unit:
    """Writes a step of an LSTM cell of floats without projection and layer normalisation.

    `%products` has the products of the inputs with the weights of all gates, and `%sums` those of
    the output state. `%out` and `%cell` are the next states, `%before` is the last cell state, and
    `%sequence` gets the output, too. `%peephole` has weights of the cell state for the gates input,
    forget and output. Words: units; of `%products` and of `%sequence` where the step begins, and
    the distance of rows; two factors, of the input gate and of what the forget gate leaves, one of
    which is 0; and the limit of cell states. A work item is a row.
    """
    pointers = ("out", "cell", "sequence", "products", "sums", "before", "peephole")
    kernel = KernelWriter(target, "first_lstm_step", pointers)
    units, first_product, product_step, first_output, output_step = (kernel.word(n) for n in range(5))
    own, left = kernel.word(5, "float"), kernel.word(6, "float")
    low, high = kernel.word(7, "float"), kernel.word(8, "float")
    with kernel.each_item() as row:
        states = kernel.product(row, units)
        sums = kernel.product(states, str(GATES))
        products = kernel.sum(first_product, kernel.product(row, product_step))
        place = kernel.sum(first_output, kernel.product(row, output_step))

        def write(
            v: Vector,
            index: str,
            states: str = states,
            sums: str = sums,
            products: str = products,
            place: str = place,
        ) -> None:
            def loaded(pointer: str, start: str, number: int = 0) -> str:
                offset = kernel.sum(kernel.product(units, str(number)), index)
                return kernel.element(v, "float", pointer, kernel.sum(start, offset))

            def total(gate: int, state: str | None = None, weights: int = 0) -> str:
                found = v.binary(
                    "fadd", "float", loaded("%products", products, gate), loaded("%sums", sums, gate)
                )
                if state is None:
                    return found
                seen = v.binary("fmul", "float", loaded("%peephole", "0", weights), state)
                return v.binary("fadd", "float", found, seen)

            before = loaded("%before", states)
            forget = curve(v, Op.LOGISTIC, total(_FORGET, before, 1))
            admit = curve(v, Op.LOGISTIC, total(_INPUT, before, 0))
            rest = v.binary("fsub", "float", v.number("float", 1), forget)
            admit = v.binary(
                "fadd",
                "float",
                v.binary("fmul", "float", admit, v.splat("float", own)),
                v.binary("fmul", "float", rest, v.splat("float", left)),
            )
            candidate = curve(v, Op.TANH, total(_CELL))
            cell = v.binary(
                "fadd",
                "float",
                v.binary("fmul", "float", forget, before),
                v.binary("fmul", "float", admit, candidate),
            )
            cell = clamped(v, cell, low, high)
            emit = curve(v, Op.LOGISTIC, total(_OUTPUT, cell, 2))
            output = v.binary("fmul", "float", emit, curve(v, Op.TANH, cell))
            store(v, "float", cell, "%cell", kernel.sum(states, index))
            store(v, "float", output, "%out", kernel.sum(states, index))
            store(v, "float", output, "%sequence", kernel.sum(place, index))

        kernel.each_element(kernel.vector, "0", units, write)
    return kernel.unit()
