"""Writes steps of basic cells of floats."""

from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.elementwise.expressions import curve
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def rnn_units(target: Target) -> list[Unit]:
    """Returns the units of the kernels of basic cells, one for each activation."""
    return [_rnn_step(target, activation) for activation in ("clamped", "tanh", "logistic")]


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
