"""Stores of partial vectors."""

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address


def store_lanes(code: Instructions, value: str, element: str, lanes: int, pointer: str, count: int) -> None:
    """Stores the first elements of a vector, in parts of 2^n.

    Args:
        code: receives the instructions.
        value: name of the vector.
        element, lanes: its type.
        pointer: the destination, aligned to an element.
        count: number of elements.
    """
    size, done = int(element[1:]) // 8, 0
    while done < count:
        part = lanes
        while done + part > count:
            part //= 2
        piece = value
        if part < lanes:
            kind, picked = f"<{lanes} x {element}>", ", ".join(f"i32 {done + each}" for each in range(part))
            piece = code.fresh(f"shufflevector {kind} {value}, {kind} poison, <{part} x i32> <{picked}>")
        to = address(code, pointer, str(done * size))
        code.effect(f"store <{part} x {element}> {piece}, ptr {to}, align {size}")
        done += part
