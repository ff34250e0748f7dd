"""Writes kernels that prepare factors: integers without zero points, and packed matrices."""

from neurald.drivers.cpu.emit.math.rounding import round_away
from neurald.drivers.cpu.emit.vector import SUFFIXES, Vector
from neurald.drivers.cpu.emit.vector_memory import gather, store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

_LOW, _HIGH = -128.0, 127.0


def factor_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels for factors."""
    return [
        _widen(target, "signed", "sext"),
        _widen(target, "unsigned", "zext"),
        _quantize_rows(target),
        _pack_words(target, "rows"),
        _pack_words(target, "columns"),
        _pack_bytes(target, "signed", "sext"),
        _pack_bytes(target, "unsigned", "zext"),
    ]


def _widen(target: Target, sign: str, extension: str) -> Unit:
    """Writes a conversion of bytes to 16-bit values without their zero point.

    Words: elements, elements of a row of the input and of the output, the zero point. A work item
    is a row; elements that only rows of the output have are 0.
    """
    kernel = KernelWriter(target, f"first_widen_{sign}", ("out", "input"))
    elements, length, padded = (kernel.word(number) for number in range(3))
    zero_point = kernel.code.value(f"trunc i64 {kernel.word(3)} to i16")
    with kernel.each_item() as row:
        first, target_row = kernel.product(row, length), kernel.product(row, padded)
        count = kernel.least(length, kernel.difference(elements, first))

        def write(v: Vector, index: str, first: str = first, target_row: str = target_row) -> None:
            value = kernel.element(v, "i8", "%input", kernel.sum(first, index))
            value = v.cast(extension, "i8", value, "i16")
            value = v.binary("sub", "i16", value, v.splat("i16", zero_point))
            store(v, "i16", value, "%out", kernel.sum(target_row, index))

        kernel.each_element(Vector(kernel.code, target, target.lanes(2)), "0", count, write)
        with kernel.code.loop(length, padded, may_be_empty=True) as rest:
            store(kernel.single, "i16", "0", "%out", kernel.sum(target_row, rest.index))
    return kernel.unit()


def _quantize_rows(target: Target) -> Unit:
    """Writes the quantisation of rows of floats by their own ranges, without their zero points.

    Words: elements of a row, of a pixel of the input and of the output, how often each scale is
    written, and whether rows have zero points. A work item is a row; elements that only pixels of
    the output have are not written. See `neurald.hal.operations.arithmetic.row_quantization`.
    """
    kernel = KernelWriter(target, "first_quantize_rows", ("out", "rows", "input"))
    length, depth, padded, repeats, asymmetric = (kernel.word(number) for number in range(5))
    pixels, _ = kernel.split(length, depth)
    with kernel.each_item() as row:
        start = kernel.product(row, length)
        scale, inverse, zero_point, least = _row_parameters(
            kernel, *_range_of_row(kernel, start, length), asymmetric
        )
        first_scale = kernel.product(row, repeats)
        with kernel.code.loop("0", repeats) as loop:
            store(kernel.single, "float", scale, "%rows", kernel.sum(first_scale, loop.index))

        first_pixel = kernel.product(row, pixels)
        with kernel.code.loop("0", pixels) as pixel:
            number = kernel.sum(first_pixel, pixel.index)
            given, place = kernel.product(number, depth), kernel.product(number, padded)

            def write(
                v: Vector,
                index: str,
                given: str = given,
                place: str = place,
                inverse: str = inverse,
                zero_point: str = zero_point,
                least: str = least,
            ) -> None:
                x = kernel.element(v, "float", "%input", kernel.sum(given, index))
                x = round_away(v, "float", v.binary("fmul", "float", x, v.splat("float", inverse)))
                x = v.binary("fadd", "float", x, v.splat("float", zero_point))
                x = clamped(v, x, least, kernel.single.number("float", _HIGH))
                x = v.select(v.compare("ord", "float", x, x), "float", x, v.number("float", 0))
                x = v.binary("fsub", "float", x, v.splat("float", zero_point))
                value = v.cast("trunc", "i32", v.cast("fptosi", "float", x, "i32"), "i16")
                store(v, "i16", value, "%out", kernel.sum(place, index))

            kernel.each_element(kernel.vector, "0", depth, write)
    return kernel.unit()


def _range_of_row(kernel: KernelWriter, start: str, length: str) -> tuple[str, str]:
    """Returns the smallest and the largest of a row's floats and 0; NaN is ignored."""
    code, v, single = kernel.code, kernel.vector, kernel.single
    whole = kernel.product(single.binary("udiv", "i64", length, str(v.lanes)), str(v.lanes))

    def extended(v: Vector, index: str, limits: list[str]) -> list[str]:
        x = kernel.element(v, "float", "%input", kernel.sum(start, index))
        return [
            v.select(v.compare(condition, "float", x, limit), "float", x, limit)
            for condition, limit in zip(("olt", "ogt"), limits, strict=True)
        ]

    zeros = [(v.type("float"), v.number("float", 0))] * 2
    with code.loop("0", whole, zeros, step=v.lanes, may_be_empty=True) as loop:
        loop.results = extended(v, loop.index, loop.carried)
    found = []
    for how, limit in zip(("fmin", "fmax"), loop.results, strict=True):
        name = f"@llvm.vector.reduce.{how}.v{v.lanes}{SUFFIXES['float']}"
        code.declarations.add(f"declare float {name}({v.type('float')})")
        found.append(("float", code.fresh(f"call float {name}({v.type('float')} {limit})")))
    with code.loop(whole, length, found, may_be_empty=True) as rest:
        rest.results = extended(single, rest.index, rest.carried)
    return rest.results[0], rest.results[1]


def _row_parameters(kernel: KernelWriter, low: str, high: str, asymmetric: str) -> tuple[str, str, str, str]:
    """Returns a row's scale, its inverse, the zero point, and smallest quantised value: floats."""
    s = kernel.single
    is_asymmetric = s.compare("ne", "i64", asymmetric, "0")

    def number(value: float) -> str:
        return s.number("float", value)

    # Without a zero point.
    magnitude = s.negate("float", low)
    magnitude = s.select(s.compare("ogt", "float", high, magnitude), "float", high, magnitude)
    is_zero = s.compare("oeq", "float", magnitude, number(0))
    plain = s.select(is_zero, "float", number(1), s.binary("fdiv", "float", magnitude, number(_HIGH)))
    plain_inverse = s.select(is_zero, "float", number(0), s.binary("fdiv", "float", number(_HIGH), magnitude))
    # With one, which follows from the end of the range with the smaller rounding error.
    is_empty = s.compare("oeq", "float", low, high)
    extent = s.binary("fdiv", "float", s.binary("fsub", "float", high, low), number(_HIGH - _LOW))
    scale = s.select(is_empty, "float", number(1), extent)
    below, above = (s.binary("fdiv", "float", each, scale) for each in (low, high))
    errors = [
        s.binary("fadd", "float", s.call("llvm.fabs", "float", each), number(abs(end)))
        for each, end in ((below, _LOW), (above, _HIGH))
    ]
    zero = s.select(
        s.compare("olt", "float", *errors),
        "float",
        s.binary("fsub", "float", number(_LOW), below),
        s.binary("fsub", "float", number(_HIGH), above),
    )
    zero = round_away(s, "float", zero)
    for condition, end in (("olt", _LOW), ("ogt", _HIGH)):
        limit = number(end)
        zero = s.select(s.compare(condition, "float", zero, limit), "float", limit, zero)
    is_none = s.binary("or", "i1", is_empty, s.compare("uno", "float", zero, zero))
    zero = s.select(is_none, "float", number(0), zero)
    chosen = (
        (scale, plain),
        (s.binary("fdiv", "float", number(1), scale), plain_inverse),
        (zero, number(0)),
        (number(_LOW), number(-_HIGH)),
    )
    one, two, three, four = (s.select(is_asymmetric, "float", *each) for each in chosen)
    return one, two, three, four


def _pack_words(target: Target, source: str) -> Unit:
    """Writes the arrangement of a matrix of 32-bit words in panels.

    Words: terms, channels, words of the matrix between terms and between channels, panels, channels
    of a panel, words between matrices. A work item is a panel. Lanes without a channel are not
    written.
    """
    kernel = KernelWriter(target, f"first_pack_{source}", ("out", "input"))
    code = kernel.code
    terms, channels, term_step, channel_step, panels, width, distance = (kernel.word(n) for n in range(7))
    with kernel.each_item() as item:
        batch, panel = kernel.split(item, panels)
        first = kernel.product(panel, width)
        count = kernel.least(width, kernel.difference(channels, first))
        matrix = kernel.sum(kernel.product(batch, distance), kernel.product(first, channel_step))
        begin = kernel.product(kernel.product(item, terms), width)
        with code.loop("0", terms) as term:
            row = kernel.at("i32", "%input", kernel.sum(matrix, kernel.product(term.index, term_step)))
            place = kernel.sum(begin, kernel.product(term.index, width))

            def write(v: Vector, index: str, row: str = row, place: str = place) -> None:
                if source == "rows":
                    value = kernel.element(v, "i32", row, index)
                elif v.lanes == 1:
                    value = kernel.element(v, "i32", row, kernel.product(index, channel_step))
                else:
                    base = kernel.at("i32", row, kernel.product(index, channel_step))
                    steps = v.splat("i64", channel_step)
                    offsets = v.binary("mul", "i64", v.numbers("i64", range(v.lanes)), steps)
                    value = gather(v, "i32", base, "i64", offsets)
                store(v, "i32", value, "%out", kernel.sum(place, index))

            kernel.each_element(kernel.vector, "0", count, write)
    return kernel.unit()


def _pack_bytes(target: Target, sign: str, extension: str) -> Unit:
    """Writes the arrangement of a matrix of bytes, whose channels are neighbours, in panels.

    Elements become 16-bit values without their zero point, two to a term. Words: elements that are
    summed, channels, bytes between matrices, panels, channels of a panel, the zero point. A work
    item is a panel; see `_pack_words`.
    """
    kernel = KernelWriter(target, f"first_pack_{sign}", ("out", "input"))
    code = kernel.code
    depth, channels, distance, panels, width = (kernel.word(n) for n in range(5))
    zero_point = kernel.word(5, "i32")
    terms = kernel.single.binary("lshr", "i64", kernel.sum(depth, "1"), "1")
    last = kernel.difference(depth, "1")
    with kernel.each_item() as item:
        batch, panel = kernel.split(item, panels)
        first = kernel.product(panel, width)
        count = kernel.least(width, kernel.difference(channels, first))
        matrix = kernel.sum(kernel.product(batch, distance), first)
        begin = kernel.product(kernel.product(item, terms), width)
        with code.loop("0", terms) as term:
            low = kernel.product(term.index, "2")
            high = kernel.sum(low, "1")
            has_high = kernel.single.compare("slt", "i64", high, depth)
            rows = [
                kernel.sum(matrix, kernel.product(each, channels)) for each in (low, kernel.least(high, last))
            ]
            place = kernel.sum(begin, kernel.product(term.index, width))

            def write(
                v: Vector, index: str, rows: list[str] = rows, has_high: str = has_high, place: str = place
            ) -> None:
                halves = []
                for row in rows:
                    value = kernel.element(v, "i8", "%input", kernel.sum(row, index))
                    value = v.cast(extension, "i8", value, "i32")
                    halves.append(v.binary("sub", "i32", value, v.splat("i32", zero_point)))
                exists = code.value(f"select i1 {has_high}, i32 {-1 << 16}, i32 0")
                upper = v.binary("shl", "i32", halves[1], v.number("i32", 16))
                upper = v.binary("and", "i32", upper, v.splat("i32", exists))
                lower = v.binary("and", "i32", halves[0], v.number("i32", (1 << 16) - 1))
                store(v, "i32", v.binary("or", "i32", upper, lower), "%out", kernel.sum(place, index))

            kernel.each_element(kernel.vector, "0", count, write)
    return kernel.unit()
