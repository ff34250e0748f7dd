"""The command `neurald explain`."""

from errno import EISDIR, ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.completion import device_names, policy_names

if TYPE_CHECKING:
    from neurald.runtime.explain.explanation import Explanation
    from neurald.runtime.explain.records import StepExplanation

#: Maximum number of operations that are listed; `--json` and `--html` have all of them.
_MAX_LISTED_OPERATIONS = 8


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)],
    device: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=device_names,
            metavar="NAME",
            help="Use this device only: a name from `neurald devices`, or the address of a daemon. May "
            "be repeated.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            autocompletion=policy_names,
            metavar="NAME",
            help="How to split the model: min_cost, android or tengine.  [default: min_cost, or NEURALD_POLICY]",
            show_default=False,
        ),
    ] = None,
    signature: Annotated[
        str | None, typer.Option(metavar="NAME", help="Explain this signature of the file.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write an HTML page with a diagram of the model, coloured by device."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Shows for each operation which device would run it, and why the others would not.

    The model is not prepared or run.
    """
    import neurald as nd
    from neurald.hal.model.types import Preference
    from neurald.runtime.explain import explanation
    from neurald.runtime.partitioning.candidates import find_candidates
    from neurald.runtime.partitioning.options import (
        MIN_COST,
        POLICY_NAMES,
        Partitioning,
        default_policy,
    )
    from neurald.runtime.partitioning.partitioner import partition
    from neurald.service.console.device_choice import find_devices
    from neurald.service.console.output import note, status, write_json

    policy = policy or default_policy()
    if policy not in POLICY_NAMES:
        raise typer.BadParameter(
            f"unknown policy {policy!r}; expected one of {', '.join(POLICY_NAMES)}", param_hint="--policy"
        )
    if html is not None and not html.absolute().parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(html.parent))
    if html is not None and html.is_dir():
        raise IsADirectoryError(EISDIR, "this is a folder; a file name is expected", str(html))
    with status(f"explaining {model}", quiet=json):
        loaded = nd.load_tflite(model, signature=signature)
        candidates = find_candidates(
            loaded, find_devices(device or ()) or nd.devices(), knows_costs=policy == MIN_COST
        )
        partitioning = Partitioning(policy=policy)
        result = partition(loaded, candidates, Preference.FAST_SINGLE_ANSWER, partitioning)
        explained = explanation.explain(loaded, candidates, result)
    if html is not None:
        html.write_text(explained.to_html(title=f"{model.name}: policy {policy}"), encoding="utf-8")
    if json:
        document = {"model": str(model), "policy": policy, **explained.to_json()}
        if html is not None:
            document["html_file"] = str(html)
        write_json(document)
        return
    _show(explained)
    if html is not None:
        note(f"the diagram is in {html}")


def _show(explained: "Explanation") -> None:
    from neurald.service.console.output import printable, write_line, write_table

    total = len(explained.operations)
    shares = ("device", "operations", "share", "steps")
    rows = [
        (share.device, str(share.operations), f"{100 * share.operations / total:.1f} %", str(share.steps))
        for share in explained.shares
    ]
    write_table(shares, rows, right=shares[1:])
    write_line(
        f"{len(explained.transfers)} values, {explained.transferred_bytes} bytes, move between devices"
    )
    if explained.predicted_s:
        write_line(printable(f"predicted: {explained.predictions()}"))
    write_line()
    parts = ("step", "device", "graph", "operations", "inputs", "bytes in", "outputs", "bytes out")
    write_table(parts, [_step_row(step) for step in explained.steps], right=(*parts[2:], "step"))
    device = ""
    for refusal in explained.refusals():
        if refusal.device != device:
            device = refusal.device
            write_line()
            write_line(printable(f"Not on {device}:"))
        where = ", ".join(refusal.operations[:_MAX_LISTED_OPERATIONS]) + (
            ", …" if len(refusal.operations) > _MAX_LISTED_OPERATIONS else ""
        )
        count = f"{len(refusal.operations)} × {refusal.type} ({where})"
        write_line("  " + printable(f"{count}: {refusal.reason}"))


def _step_row(step: "StepExplanation") -> tuple[str, ...]:
    sizes = []
    for values in (step.inputs, step.outputs):
        known = sum(value.bytes or 0 for value in values)
        unknown = any(value.bytes is None for value in values)
        sizes += [str(len(values)), f"{known} + ?" if unknown else str(known)]
    return (str(step.step), step.device, str(step.graph), str(len(step.operations)), *sizes)
