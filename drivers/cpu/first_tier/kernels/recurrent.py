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
    return [
        _lstm_step(target),
        *(_rnn_step(target, activation) for activation in ("clamped", "tanh", "logistic")),
        _svdf_step(target),
    ]


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


def _rnn_step(target: Target, activation: str) -> Unit:
    """Writes a step of a basic cell of floats.

    `%products` has the products of the inputs, and `%sums` those of the state. `%out` is the next
    state, which `%sequence` gets, too. Words: units; of `%products` and of `%sequence` where the
    step begins, and the distance of rows; and the limits of the results, if they are clamped. A
    work item is a row.
    """
    kernel = KernelWriter(target, f"first_rnn_step_{activation}", ("out", "sequence", "products", "sums"))
    units, first_product, product_step, first_output, output_step = (kernel.word(n) for n in range(5))
    low, high = kernel.word(5, "float"), kernel.word(6, "float")
    with kernel.each_item() as row:
        states = kernel.product(row, units)
        products = kernel.sum(first_product, kernel.product(row, product_step))
        place = kernel.sum(first_output, kernel.product(row, output_step))

        def write(
            v: Vector, index: str, states: str = states, products: str = products, place: str = place
        ) -> None:
            total = v.binary(
                "fadd",
                "float",
                kernel.element(v, "float", "%products", kernel.sum(products, index)),
                kernel.element(v, "float", "%sums", kernel.sum(states, index)),
            )
            if activation == "clamped":
                found = clamped(v, total, low, high)
            else:
                found = curve(v, Op.TANH if activation == "tanh" else Op.LOGISTIC, total)
            store(v, "float", found, "%out", kernel.sum(states, index))
            store(v, "float", found, "%sequence", kernel.sum(place, index))

        kernel.each_element(kernel.vector, "0", units, write)
    return kernel.unit()


def _svdf_step(target: Target) -> Unit:
    """Writes a step of SVDF of floats.

    `%features` has one number for each filter, which is stored in the last place of its memory
    `%before`; `%times` weights its places. `%out` is the next memory, whose last places are free.
    Words: units, filters of each, places of a memory, and the limits of the results. A work item is
    a unit of a row.
    """
    pointers = ("out", "result", "features", "before", "times", "bias")
    kernel = KernelWriter(target, "first_svdf_step", pointers)
    code, v = kernel.code, kernel.single
    units, rank, length = (kernel.word(number) for number in range(3))
    low, high = kernel.word(3, "float"), kernel.word(4, "float")
    newest = kernel.difference(length, "1")
    with kernel.each_item() as item:
        _, unit = kernel.split(item, units)
        first, own = kernel.product(item, rank), kernel.product(unit, rank)
        with code.loop("0", rank, [("float", v.number("float", 0))]) as filters:
            number = kernel.sum(first, filters.index)
            begin = kernel.product(number, length)
            weights = kernel.product(kernel.sum(own, filters.index), length)
            feature = kernel.element(v, "float", "%features", number)

            def weighted(place: str, value: str, weights: str = weights) -> str:
                weight = kernel.element(v, "float", "%times", kernel.sum(weights, place))
                return v.binary("fmul", "float", value, weight)

            with code.loop("0", newest, [("float", filters.carried[0])], may_be_empty=True) as places:
                value = kernel.element(v, "float", "%before", kernel.sum(begin, places.index))
                sum_ = v.binary("fadd", "float", places.carried[0], weighted(places.index, value))
                places.results = [sum_]
            filters.results = [v.binary("fadd", "float", places.results[0], weighted(newest, feature))]
            # All but the oldest one move by one place.
            with code.loop("1", newest, may_be_empty=True) as places:
                at = kernel.sum(begin, places.index)
                value = kernel.element(v, "float", "%before", at)
                store(v, "float", value, "%out", kernel.difference(at, "1"))
            last = kernel.sum(begin, newest)
            is_long = v.compare("sgt", "i64", newest, "0")
            # A memory of one place has nothing but the free one.
            before_last = v.select(is_long, "i64", kernel.difference(last, "1"), last)
            store(v, "float", feature, "%out", before_last)
            store(v, "float", v.number("float", 0), "%out", last)
        total = kernel.element(v, "float", "%bias", unit)
        total = v.binary("fadd", "float", filters.results[0], total)
        store(v, "float", clamped(v, total, low, high), "%result", item)
    return kernel.unit()
