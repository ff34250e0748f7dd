"""The command `neurald explain`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.options.completion import policy_names
from neurald.service.cli.options.devices import DevicesOption
from neurald.service.cli.options.model import ModelArgument
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neurald.hal.device import Device
    from neurald.hal.model.model import Model
    from neurald.runtime.execution.profile import StepProfile
    from neurald.runtime.explain.explanation import Explanation
    from neurald.runtime.explain.records import StepExplanation
    from neurald.runtime.partitioning.options import Partitioning
    from neurald.runtime.partitioning.overrides import Override

#: Maximum number of operations that are listed; `--json` and `--html` have all of them.
_MAX_LISTED_OPERATIONS = 8
#: Maximum number of operations in a range of `--what-if`.
_MAX_PINNED_OPERATIONS = 100_000
#: The most characters of a range of operations.
_MAX_RANGE_CHARACTERS = 40


def explain(
    model: ModelArgument,
    device: DevicesOption = None,
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
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Prepare the model, run it on random inputs, and add the kernels with their times.",
        ),
    ] = False,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DEVICE=OPERATIONS",
            help="Also explain what would change if these operations ran on this device, such as "
            "gpu:0=3,5-9. May be repeated.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Shows for each operation which device would run it, and why the others would not.

    The model is not prepared or run, unless its kernels are asked for.
    """
    import neurald as nd
    from neurald.hal.model.types import Preference
    from neurald.hal.process.files.output_file import write_output
    from neurald.runtime.explain.partitioned_model import PartitionedModel
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
    from neurald.service.console.output_files import require_writable

    policy = policy or default_policy()
    if policy not in POLICY_NAMES:
        raise typer.BadParameter(
            f"unknown policy {policy!r}; expected one of {', '.join(POLICY_NAMES)}", param_hint="--policy"
        )
    require_writable(html)
    rules = [_rule(text) for text in what_if or ()]
    with status(f"explaining {model.name}", quiet=json):
        loaded = nd.load_tflite(model, signature=signature)
        devices = find_devices(device or ()) or nd.devices()
        candidates = find_candidates(loaded, devices, knows_costs=policy == MIN_COST)
        partitioning = Partitioning(policy=policy)
        result = partition(loaded, candidates, Preference.FAST_SINGLE_ANSWER, partitioning)
        found = PartitionedModel(candidates=tuple(candidates), result=result, partitioning=partitioning)
        explained = found.explain(loaded, "", ())
        what_ifs = [found.what_if(loaded, "", (rule,)) for rule in rules]
        if profile:
            explained = explained.with_kernels(_profile(loaded, devices, partitioning))
    if html is not None:
        write_output(html, explained.to_html(f"{model.name}: policy {policy}", what_ifs).encode())
    if json:
        document = {"model": str(model), "policy": policy, **explained.to_json()}
        if what_ifs:
            document["what_ifs"] = [each.to_json() for each in what_ifs]
        if html is not None:
            document["html_file"] = str(html)
        write_json(document)
        return
    _show(explained)
    _show_what_ifs(what_ifs)
    if html is not None:
        note(f"the diagram is in {html}")


def _rule(text: str) -> "Override":
    """Parses `DEVICE=3,5-9`."""
    from neurald.runtime.partitioning.overrides import pin

    device, separator, listed = text.rpartition("=")
    numbers: list[int] = []
    for part in listed.split(","):
        first, dash, last = part.strip().partition("-")
        is_number = first.isdecimal() and (last.isdecimal() if dash else not last)
        if not (separator and is_number and len(part) <= _MAX_RANGE_CHARACTERS):
            raise typer.BadParameter(
                f"{text!r}; expected a device and operations, such as gpu:0=3,5-9", param_hint="--what-if"
            )
        start, end = int(first), int(last or first)
        if end < start or end - start > _MAX_PINNED_OPERATIONS:
            raise typer.BadParameter(
                f"{part!r} is not a range of at most {_MAX_PINNED_OPERATIONS} operations",
                param_hint="--what-if",
            )
        numbers += range(start, end + 1)
    return pin(device, numbers)


def _profile(
    model: "Model", devices: "Sequence[Device]", partitioning: "Partitioning"
) -> "tuple[StepProfile, ...]":
    """Prepares and runs the model, and returns the times of its kernels."""
    import neurald as nd
    from neurald.service.console.profile import median_profile
    from neurald.service.tensors.arrays import input_slots, random_inputs

    builder = nd.CompilationBuilder(model, devices)
    builder.set_partitioning(partitioning)
    compilation = builder.finish()
    inputs = random_inputs(input_slots(model), {})
    compilation.run(*inputs)
    compilation.wait_until_optimized()
    return median_profile(compilation, lambda: compilation.run(*inputs))


def _show_what_ifs(what_ifs: "Sequence[Explanation]") -> None:
    from neurald.service.console.output import printable, write_line

    for each in what_ifs:
        write_line()
        for note in (*each.notes, *map(str, each.changes[:_MAX_LISTED_OPERATIONS])):
            write_line(printable(note))
        if len(each.changes) > _MAX_LISTED_OPERATIONS:
            write_line(f"… and {len(each.changes) - _MAX_LISTED_OPERATIONS} more")


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
