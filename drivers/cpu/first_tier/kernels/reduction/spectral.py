"""Writes Fourier transforms of real rows, and lengths of complex numbers."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def spectral_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels."""
    return [_transform(target), _complex_lengths(target)]


def _transform(target: Target) -> Unit:
    """Writes the first half of the Fourier transform of rows.

    Pairs of elements are taken as complex numbers, of which there are half as many, and transformed
    by halves (Stockham's order, so that nothing is put in order by bits). What the real row has is
    computed from that.

    `%turns` has the cosines of all turns, half of one at the most, and then the sines. `%work` has
    four times as many floats as half a row for each work item. Words: elements of half a row, and
    from a row to the next. A work item is a row.
    """
    kernel = KernelWriter(target, "first_real_transform", ("out", "input", "turns", "work"))
    code, single = kernel.code, kernel.single
    half, distance = kernel.word(0), kernel.word(1)
    sines = kernel.at("float", "%turns", kernel.sum(half, "1"))
    with kernel.each_item() as row:
        first = kernel.at("float", "%work", kernel.product(row, multiple(code, half, 4)))
        second = kernel.at("float", first, multiple(code, half, 2))
        given = kernel.at("float", "%input", kernel.product(row, distance))
        with code.loop("0", half) as pair:
            at = multiple(code, pair.index, 2)
            for offset, place in ((at, pair.index), (kernel.sum(at, "1"), kernel.sum(pair.index, half))):
                store(single, "float", kernel.element(single, "float", given, offset), first, place)
        stages = single.call("llvm.cttz", "i64", half, flags=", i1 true")
        state = [("ptr", first), ("ptr", second), ("i64", half), ("i64", "1")]
        with code.loop("0", stages, state, may_be_empty=True) as stage:
            source, result, count, size = stage.carried
            left = single.binary("lshr", "i64", count, "1")
            _stage(kernel, source, result, left, size)
            stage.results = [result, source, left, single.binary("shl", "i64", size, "1")]
        last = kernel.difference(half, "1")
        with code.loop("0", kernel.sum(half, "1")) as number:
            # Positions are those of a circle.
            at = single.binary("and", "i64", number.index, last)
            opposite = single.binary("and", "i64", kernel.difference(half, number.index), last)
            cosine = kernel.element(single, "float", "%turns", number.index)
            sine = kernel.element(single, "float", sines, number.index)
            place = multiple(code, kernel.sum(kernel.product(row, kernel.sum(half, "1")), number.index), 2)
            real, imaginary = _of_row(kernel, stage.results[0], at, opposite, cosine, sine)
            store(single, "float", real, "%out", place)
            store(single, "float", imaginary, "%out", kernel.sum(place, "1"))
        # The first and the last number are real; their imaginary part is -0.0, as in references.
        begin = multiple(code, kernel.product(row, kernel.sum(half, "1")), 2)
        for end in ("0", half):
            place = kernel.sum(begin, kernel.sum(multiple(code, end, 2), "1"))
            store(single, "float", single.number("float", -0.0), "%out", place)
    return kernel.unit()


def _stage(kernel: KernelWriter, source: str, result: str, left: str, size: str) -> None:
    """Writes one stage: of `2 * left` interleaved transforms with `size` numbers each."""
    code, half = kernel.code, kernel.word(0)
    sines = kernel.at("float", "%turns", kernel.sum(half, "1"))
    with code.loop("0", left) as part:
        turn = kernel.product(multiple(code, part.index, 2), size)
        cosine, sine = (kernel.element(kernel.single, "float", each, turn) for each in ("%turns", sines))
        one = kernel.product(part.index, size)
        other = kernel.sum(one, kernel.product(left, size))
        place = multiple(code, one, 2)

        def write(v: Vector, index: str) -> None:
            def loaded(start: str) -> list[str]:
                at = kernel.sum(start, index)
                return [kernel.element(v, "float", source, each) for each in (at, kernel.sum(at, half))]

            def stored(start: str, values: tuple[str, str]) -> None:
                at = kernel.sum(start, index)
                for value, each in zip(values, (at, kernel.sum(at, half)), strict=True):
                    store(v, "float", value, result, each)

            (a, b), (c, d) = loaded(one), loaded(other)
            stored(place, (v.binary("fadd", "float", a, c), v.binary("fadd", "float", b, d)))
            real, imaginary = v.binary("fsub", "float", a, c), v.binary("fsub", "float", b, d)
            turns = v.splat("float", cosine), v.splat("float", sine)
            stored(kernel.sum(place, size), _product(v, (real, imaginary), turns))

        kernel.each_element(kernel.vector, "0", size, write)


def _product(v: Vector, first: tuple[str, str], second: tuple[str, str]) -> tuple[str, str]:
    """Multiplies complex numbers."""
    (a, b), (c, d) = first, second
    products = [v.binary("fmul", "float", *each) for each in ((a, c), (b, d), (b, c), (a, d))]
    return v.binary("fsub", "float", *products[:2]), v.binary("fadd", "float", *products[2:])


def _of_row(
    kernel: KernelWriter, numbers: str, at: str, opposite: str, cosine: str, sine: str
) -> tuple[str, str]:
    """Returns a number of the transform of a real row, from that of its pairs of elements."""
    v, half = kernel.single, kernel.word(0)

    def loaded(start: str) -> tuple[str, str]:
        real, imaginary = (
            kernel.element(v, "float", numbers, each) for each in (start, kernel.sum(start, half))
        )
        return real, imaginary

    (a, b), (c, d) = loaded(at), loaded(opposite)
    even = v.binary("fadd", "float", a, c), v.binary("fsub", "float", b, d)
    odd = v.binary("fadd", "float", b, d), v.binary("fsub", "float", c, a)
    turned = _product(v, odd, (cosine, sine))
    sums = [v.binary("fadd", "float", *each) for each in zip(even, turned, strict=True)]
    real, imaginary = (v.binary("fmul", "float", each, v.number("float", 0.5)) for each in sums)
    return real, imaginary


def _complex_lengths(target: Target) -> Unit:
    """Writes the lengths of complex numbers, in 64 bits so that squares are finite.

    Words: their number. A work item is a block of them.
    """
    kernel = KernelWriter(target, "first_complex_lengths", ("out", "input"))

    def write(v: Vector, index: str) -> None:
        at = multiple(kernel.code, index, 2)
        if v.lanes == 1:
            parts = [kernel.element(v, "float", "%input", each) for each in (at, kernel.sum(at, "1"))]
        else:
            both = Vector(kernel.code, target, 2 * v.lanes)
            pairs, kind = kernel.element(both, "float", "%input", at), both.type("float")
            chosen = [", ".join(f"i32 {2 * n + part}" for n in range(v.lanes)) for part in range(2)]
            parts = [
                kernel.code.value(f"shufflevector {kind} {pairs}, {kind} poison, <{v.lanes} x i32> <{each}>")
                for each in chosen
            ]
        wide = [v.cast("fpext", "float", each, "double") for each in parts]
        squares = [v.binary("fmul", "double", each, each) for each in wide]
        length = v.call("llvm.sqrt", "double", v.binary("fadd", "double", *squares))
        store(v, "float", v.cast("fptrunc", "double", length, "float"), "%out", index)

    kernel.each_element(Vector(kernel.code, target, target.lanes(8)), *kernel.blocks(), write)
    return kernel.unit()
