"""`neurald conformance`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from neurald.hal.device import Device
    from neurald.service.conformance.result import Result

#: Failures that are listed one by one; `--json` has them all.
_SHOWN = 20


def conformance(
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A device as `neurald devices` lists it, the address of a daemon, the name of a driver, or module:factory.",
            show_default=False,
        ),
    ],
    count: Annotated[
        int, typer.Option(min=1, help="Generated cases for each form and row of types of an operation.")
    ] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first of them.")] = 0,
    operation: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this operation; may be repeated.", show_default=False),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder with Android's conformance records, to run too.", show_default=False
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Checks that a device does what every device must do; ends with 1 if it does not."""
    from neurald.service.conformance.result import Outcome
    from neurald.service.conformance.suite import Plan, run
    from neurald.service.devices import find_devices
    from neurald.service.output import progress, write_json

    plan = Plan(count=count, seed=seed, operations=_operations(operation or ()), vectors=vectors)
    found = (find_devices([device]) or [])[0]
    with progress(f"checking {found.name}", quiet=json) as bar:
        results = list(run(found, plan, bar.advance_to))
    if json:
        write_json(_document(found, results))
    else:
        _show(found, results)
    if any(result.outcome is Outcome.FAILED for result in results):
        raise typer.Exit(1)


def _operations(names: Sequence[str]) -> tuple[Any, ...]:
    from neurald.hal.errors import BadData
    from neurald.hal.operation_type import OperationType

    unknown = [name for name in names if name not in OperationType.__members__]
    if unknown:
        raise BadData(f"there is no operation {unknown[0]!r}; docs/operations.md lists them")
    return tuple(OperationType[name] for name in names)


def _document(device: "Device", results: Sequence["Result"]) -> dict[str, Any]:
    from neurald.service.conformance.result import Outcome, count

    counts = {
        group: {outcome.value: found[outcome] for outcome in Outcome}
        for group, found in count(results).items()
    }
    listed = [
        {
            "group": result.group,
            "subject": result.subject,
            "outcome": result.outcome.value,
            "detail": result.detail,
            "seed": result.seed,
        }
        for result in results
        if result.outcome is not Outcome.PASSED
    ]
    return {"device": device.name, "version": device.version, "counts": counts, "results": listed}


def _show(device: "Device", results: Sequence["Result"]) -> None:
    from collections import Counter

    from neurald.service.conformance.result import Outcome, count
    from neurald.service.output import note, printable, write_line, write_table

    write_line(f"{printable(device.name)}, {printable(device.version)}")
    rows = [(group, *(str(found[outcome]) for outcome in Outcome)) for group, found in count(results).items()]
    columns = ("checks", *(outcome.value for outcome in Outcome))
    write_table(columns, rows, right=columns[1:])
    declined = Counter(
        (result.group, result.detail) for result in results if result.outcome is Outcome.DECLINED
    )
    if declined:
        table = [(group, reason, str(number)) for (group, reason), number in declined.most_common(_SHOWN)]
        write_table(("checks", "declined because", "times"), table, right=("times",))
    failed = [result for result in results if result.outcome is Outcome.FAILED]
    if failed:
        failures = [
            (result.group, result.subject, "" if result.seed is None else str(result.seed), result.detail)
            for result in failed[:_SHOWN]
        ]
        write_table(("checks", "failed", "seed", "what is wrong"), failures, right=("seed",))
    if len(failed) > _SHOWN:
        note(f"{len(failed) - _SHOWN} more failed; --json lists all")
