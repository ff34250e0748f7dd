"""Horizontal reductions of vectors."""

from neurald.drivers.cpu.emit.vector import SUFFIXES, Vector


def horizontal_sum(v: Vector, element: str, value: str) -> str:
    """Returns the sum of a vector's lanes, in any order.

    Args:
        v: receives the instructions; has more than one lane.
        element: `float`, or an integer type.
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


def horizontal_extreme(v: Vector, element: str, how: str, value: str) -> str:
    """Returns the minimum or maximum of a vector's lanes.

    Args:
        v: receives the instructions.
        element: an integer type.
        how: `smin` or `smax`.
        value: the vector.
    """
    if v.lanes == 1:
        return value
    kind, name = v.type(element), f"@llvm.vector.reduce.{how}.v{v.lanes}{element}"
    v.code.declarations.add(f"declare {element} {name}({kind})")
    return v.code.value(f"call {element} {name}({kind} {value})")
