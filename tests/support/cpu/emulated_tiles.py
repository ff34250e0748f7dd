"""Runs code with tile registers on processors without them: their instructions become functions."""

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.target.routine import NAME, Routine
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.records import replace

#: Bytes of a tile and of its rows.
_TILE, _ROW = 1024, 64
_TILES, _CONFIGURATION = f"@{NAME}.tile_memory", f"@{NAME}.tile_configuration"


def emulated(target: Target) -> Target:
    """Returns a target with tile registers as one whose code runs wherever the given one runs."""
    amx = TARGETS["amx"]
    return replace(amx, name=f"amx on {target.name}", cpu=target.cpu, features=target.features)


def with_emulated_tiles(routine: Routine) -> Routine:
    """Replaces the instructions of tile registers by functions of the same effect.

    Supported are loads, stores and products of bfloat16 numbers and of signed or unsigned with
    signed bytes.
    """
    text = routine.text
    for name in (
        "ldtilecfg",
        "tilerelease",
        "tileloadd64",
        "tilestored64",
        "tdpbf16ps",
        "tdpbusd",
        "tdpbssd",
    ):
        text = text.replace(f"@llvm.x86.{name}(", f"@{NAME}.{name}(")
    globals_ = (
        f"{_TILES} = internal global [{8 * _TILE} x i8] zeroinitializer, align 64",
        f"{_CONFIGURATION} = internal global [64 x i8] zeroinitializer, align 64",
    )
    functions = (
        _configure(),
        _release(),
        _move("tileloadd64"),
        _move("tilestored64"),
        _multiply(),
        _multiply_bytes("tdpbusd", "zext"),
        _multiply_bytes("tdpbssd", "sext"),
    )
    declarations = frozenset(each for each in routine.declarations if "@llvm.x86." not in each)
    return replace(routine, text="\n".join((*globals_, *functions, text)), declarations=declarations)


def _function(name: str, parameters: str, code: Instructions) -> str:
    return "\n".join(
        (f"define internal void @{NAME}.{name}({parameters}) {{", *code.lines, "  ret void", "}")
    )


def _configure() -> str:
    code = Instructions(("%memory",))
    with code.loop("0", "64") as loop:
        byte = code.fresh(f"load i8, ptr {address(code, '%memory', loop.index)}")
        code.effect(f"store i8 {byte}, ptr {address(code, _CONFIGURATION, loop.index)}")
    return _function("ldtilecfg", "ptr %memory", code)


def _release() -> str:
    code = Instructions()
    with code.loop("0", "64") as loop:
        code.effect(f"store i8 0, ptr {address(code, _CONFIGURATION, loop.index)}")
    return _function("tilerelease", "", code)


def _size(code: Instructions, register: str, offset: int, kind: str) -> str:
    """Returns a number of the configuration: rows (i8, from 48) or a row's bytes (i16, from 16)."""
    number = code.fresh(f"zext i8 {register} to i64")
    at = address(code, _CONFIGURATION, multiple(code, number, 2 if kind == "i16" else 1), str(offset))
    return code.fresh(f"zext {kind} {code.fresh(f'load {kind}, ptr {at}, align 1')} to i64")


def _tile(code: Instructions, register: str) -> str:
    number = code.fresh(f"zext i8 {register} to i64")
    return address(code, _TILES, multiple(code, number, _TILE))


def _move(name: str) -> str:
    code = Instructions(("%register", "%memory", "%distance"))
    rows, size = _size(code, "%register", 48, "i8"), _size(code, "%register", 16, "i16")
    tile = _tile(code, "%register")
    with code.loop("0", rows, may_be_empty=True) as row, code.loop("0", size, may_be_empty=True) as byte:
        line = code.fresh(f"mul i64 {row.index}, %distance")
        places = (
            address(code, "%memory", line, byte.index),
            address(code, tile, multiple(code, row.index, _ROW), byte.index),
        )
        source, to = places if name == "tileloadd64" else places[::-1]
        code.effect(f"store i8 {code.fresh(f'load i8, ptr {source}')}, ptr {to}")
    return _function(name, "i8 %register, ptr %memory, i64 %distance", code)


def _multiply() -> str:
    """Adds the products of a row and a column first, then their sum, as the instruction does."""
    code = Instructions(("%sums", "%left", "%right"))
    rows, columns = _size(code, "%sums", 48, "i8"), _size(code, "%sums", 16, "i16")
    terms = _size(code, "%left", 16, "i16")
    sums, left, right = (_tile(code, each) for each in ("%sums", "%left", "%right"))
    with (
        code.loop("0", rows, may_be_empty=True) as row,
        code.loop("0", columns, step=4, may_be_empty=True) as column,
    ):
        at = address(code, sums, multiple(code, row.index, _ROW), column.index)
        with code.loop("0", terms, [("float", "0.0")], step=2, may_be_empty=True) as loop:
            word = code.fresh(f"and i64 {loop.index}, -4")
            half = code.fresh(f"and i64 {loop.index}, 2")
            line = code.fresh(f"mul i64 {word}, {_ROW // 4}")
            factors = []
            for place in (
                address(code, left, multiple(code, row.index, _ROW), loop.index),
                address(code, right, line, column.index, half),
            ):
                wide = code.fresh(f"zext i16 {code.fresh(f'load i16, ptr {place}')} to i32")
                factors.append(code.fresh(f"bitcast i32 {code.fresh(f'shl i32 {wide}, 16')} to float"))
            product = code.fresh(f"fmul float {factors[0]}, {factors[1]}")
            loop.results = [code.fresh(f"fadd float {loop.carried[0]}, {product}")]
        before = code.fresh(f"load float, ptr {at}")
        code.effect(f"store float {code.fresh(f'fadd float {before}, {loop.results[0]}')}, ptr {at}")
    return _function("tdpbf16ps", "i8 %sums, i8 %left, i8 %right", code)


def _multiply_bytes(name: str, extension: str) -> str:
    """Adds the products of a row of bytes, which are extended so, and a column of signed ones."""
    code = Instructions(("%sums", "%left", "%right"))
    rows, columns = _size(code, "%sums", 48, "i8"), _size(code, "%sums", 16, "i16")
    terms = _size(code, "%left", 16, "i16")
    sums, left, right = (_tile(code, each) for each in ("%sums", "%left", "%right"))
    with (
        code.loop("0", rows, may_be_empty=True) as row,
        code.loop("0", columns, step=4, may_be_empty=True) as column,
    ):
        at = address(code, sums, multiple(code, row.index, _ROW), column.index)
        before = code.fresh(f"load i32, ptr {at}")
        with code.loop("0", terms, [("i32", before)], may_be_empty=True) as loop:
            word, byte = (code.fresh(f"and i64 {loop.index}, {mask}") for mask in (-4, 3))
            line = code.fresh(f"mul i64 {word}, {_ROW // 4}")
            places = (
                address(code, left, multiple(code, row.index, _ROW), loop.index),
                address(code, right, line, column.index, byte),
            )
            factors = [
                code.fresh(f"{kind} i8 {code.fresh(f'load i8, ptr {place}')} to i32")
                for kind, place in zip((extension, "sext"), places, strict=True)
            ]
            product = code.fresh(f"mul i32 {factors[0]}, {factors[1]}")
            loop.results = [code.fresh(f"add i32 {loop.carried[0]}, {product}")]
        code.effect(f"store i32 {loop.results[0]}, ptr {at}")
    return _function(name, "i8 %sums, i8 %left, i8 %right", code)
