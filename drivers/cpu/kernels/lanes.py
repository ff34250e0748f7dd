"""The lanes of a vector, added up or compared."""

from neurald.drivers.cpu.emit.vector import SUFFIXES, Vector


def added(v: Vector, element: str, value: str) -> str:
    """The sum of the lanes of a vector, in any order.

    Args:
        v: where instructions go; more than one lane.
        element: the type of the lanes: `float`, or an integer.
        value: the vector.
    """
    kind, suffix = v.type(element), f"v{v.lanes}{SUFFIXES.get(element, element)}"
    if element in SUFFIXES:
        name = f"@llvm.vector.reduce.fadd.{suffix}"
        v.code.declarations.add(f"declare {element} {name}({element}, {kind})")
        return v.code.fresh(f"call reassoc {element} {name}({element} -0.0, {kind} {value})")
    name = f"@llvm.vector.reduce.add.{suffix}"
    v.code.declarations.add(f"declare {element} {name}({kind})")
    return v.code.fresh(f"call {element} {name}({kind} {value})")


def reduced(v: Vector, element: str, how: str, value: str) -> str:
    """The least or the largest of the lanes of a vector.

    Args:
        v: where instructions go.
        element: the type of the lanes, an integer.
        how: `smin` or `smax`.
        value: the vector.
    """
    if v.lanes == 1:
        return value
    kind, name = v.type(element), f"@llvm.vector.reduce.{how}.v{v.lanes}{element}"
    v.code.declarations.add(f"declare {element} {name}({kind})")
    return v.code.value(f"call {element} {name}({kind} {value})")
