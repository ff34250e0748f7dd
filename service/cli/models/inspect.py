"""The command `neurald inspect`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.options.model import ModelArgument
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    from neurald.service.inspection.summary import ModelSummary, OperationSummary, ValueSummary

_MIB = 1 << 20
#: Displayed inputs of an operation; the others are options more often than not.
_SHOWN_INPUTS = 3


def inspect(
    model: ModelArgument,
    signature: Annotated[
        str | None, typer.Option(metavar="NAME", help="Inspect this signature of the file.")
    ] = None,
    operations: Annotated[
        bool, typer.Option("--operations", help="List each operation, with the graphs that it runs.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Shows what is in a model: inputs, outputs, signatures, constants, memory and operations.

    The model is not prepared or run, and no device is asked; see `neurald explain` for those.
    """
    import msgspec

    import neurald as nd
    from neurald.service.console.output import status, write_json
    from neurald.service.inspection.findings import findings
    from neurald.service.inspection.summary import summarize

    with status(f"reading {model.name}", quiet=json):
        loaded = nd.load_tflite(model, signature=signature)
        summary = summarize(loaded)
        found = list(findings(loaded, summary))
    size_bytes = model.stat().st_size
    if json:
        write_json(
            {
                "model": str(model),
                "size_bytes": size_bytes,
                **msgspec.to_builtins(summary),
                "findings": found,
            }
        )
        return
    _show(model.name, size_bytes, summary, found)
    if operations:
        _list(summary)


def _show(name: str, size_bytes: int, summary: "ModelSummary", found: Sequence[str]) -> None:
    from neurald.hal.wording import counted
    from neurald.service.console.output import printable, write_line, write_table

    total = sum(summary.operations.values())
    graphs = counted(len(summary.graphs), "graph")
    write_line(printable(f"{name}: {size_bytes / _MIB:.2f} MiB, {counted(total, 'operation')}, {graphs}"))
    write_line()
    rows = [
        # Without spaces, at which a narrow terminal would break it.
        (kind, each.name or "-", each.type, _shape(each).replace(" ", ""), _quantization(each))
        for kind, values in (("input", summary.inputs), ("output", summary.outputs))
        for each in values
    ]
    write_table(("", "name", "type", "shape", "quantisation"), rows)
    for signature, (inputs, outputs) in summary.signatures.items():
        write_line(printable(f"signature {signature}: {', '.join(inputs)} -> {', '.join(outputs)}"))
    if summary.state:
        write_line(printable(f"variables: {', '.join(summary.state)}"))
    write_line()
    for kind, (count, size) in summary.constants.items():
        write_line(f"{counted(count, 'constant')} of {kind}: {size} bytes")
    if summary.arena_bytes is None:
        write_line("computed values: sizes are open")
    else:
        write_line(
            f"computed values: {summary.arena_bytes} bytes together, {summary.largest_bytes} the largest"
        )
    write_line()
    types = ("operation", "count")
    write_table(types, [(each, str(count)) for each, count in summary.operations.items()], right=types[1:])
    for each in found:
        write_line(printable(f"note: {each}"))


def _list(summary: "ModelSummary") -> None:
    """Writes each operation, and below it those of the graphs that it runs, without recursion."""
    from neurald.service.console.output import printable, write_line

    write_line()
    waiting: list[tuple[OperationSummary | int, int]] = [(0, 0)]
    # A hostile file can have graphs that run others many times over; each is shown once.
    shown = set[int]()
    while waiting:
        part, depth = waiting.pop()
        indent = "  " * depth
        if not isinstance(part, int):
            write_line(printable(indent + _line(part)))
            waiting += [(number, depth + 1) for number in reversed(part.graphs)]
            continue
        again = " (as above)" if part in shown else ""
        if part:
            write_line(f"{indent}graph {part}{again}")
        if not again:
            shown.add(part)
            waiting += [(each, depth + 1) for each in reversed(summary.graphs[part].operations)]


def _line(operation: "OperationSummary") -> str:
    inputs = [_shape(each) for each in operation.inputs if each.shape != ()][:_SHOWN_INPUTS]
    outputs = [f"{_shape(each)} {each.type.removeprefix('TENSOR_')}" for each in operation.outputs]
    name = f"  {operation.name}" if operation.name else ""
    return f"{operation.position} {operation.type}: {' '.join(inputs)} -> {', '.join(outputs)}{name}"


def _shape(value: "ValueSummary") -> str:
    if value.shape is None:
        return "[...]"
    return f"[{', '.join('?' if length < 0 else str(length) for length in value.shape)}]"


def _quantization(value: "ValueSummary") -> str:
    if value.channels is not None:
        return f"for each channel (dimension {value.channels})"
    return "-" if value.scale is None else f"scale {value.scale:.6g}, zero point {value.zero_point}"
