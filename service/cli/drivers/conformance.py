"""The command `neurald conformance`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neurald.service.cli.options.completion import device_names, operation_names
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    from neurald.service.conformance.report import SuiteRun
    from neurald.service.inference.conformance.server_access import ServerAccess

#: Maximum number of failures that are listed; `--json` has all of them.
_MAX_LISTED = 20
#: Damaged requests that a server gets, times `--count`.
_MUTATIONS = 200


def conformance(
    device: Annotated[
        str | None,
        typer.Option(
            autocompletion=device_names,
            metavar="NAME",
            help="Check this device: a name from `neurald devices`, a driver, module:factory, or the "
            "address of a daemon.",
            show_default=False,
        ),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Check a server of the V2 inference protocol instead, this one or another: "
            "grpc://host:port or http://host:port, or grpcs:// or https:// with TLS.",
            show_default=False,
        ),
    ] = None,
    tls: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder of a certificate for the server, as `neurald cert issue` makes it.",
            show_default=False,
        ),
    ] = None,
    auth_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The file with the token that the server wants.", show_default=False
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The model of the server to use. [default: one that is ready]",
            show_default=False,
        ),
    ] = "",
    count: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Random cases per form and types of an operation, in addition to those that always run; "
            "for a server, hundreds of damaged requests.",
        ),
    ] = 1,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the first random case.")] = 0,
    operation: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=operation_names,
            metavar="NAME",
            help="Only this operation; may be repeated.",
            show_default=False,
        ),
    ] = None,
    case: Annotated[
        str,
        typer.Option(metavar="CASE", help="Only this case, as a report names it.", show_default=False),
    ] = "",
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder with Android's conformance records to run as well.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Write a certification report: Markdown to FILE.md, else JSON.",
            show_default=False,
        ),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Run all cases for every type, all of them between guard pages; by default, most "
            "types run some.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Checks that a device or a server behaves as each must; ends with 1 if it does not."""
    if (device is None) == (service is None):
        raise typer.BadParameter("name what to check with either --device or --service")
    if service is not None:
        _check_service(_access(service, auth_token_file, tls), model, count, json=json)
        return
    assert device is not None  # noqa: S101 - checked above
    import faulthandler
    import time
    from datetime import UTC, datetime

    from neurald.hal.errors import BadData
    from neurald.service.conformance.report import SuiteRun, case_command, document, write
    from neurald.service.conformance.suite import Plan, run
    from neurald.service.conformance.watch import Watch
    from neurald.service.console.device_choice import find_devices
    from neurald.service.console.output import note, progress, write_json
    from neurald.service.console.output_files import require_writable

    names = [case.partition(":")[0]] if case else operation or ()
    plan = Plan(
        count=count,
        seed=seed,
        operations=_operations(names),
        vectors=vectors,
        case=case,
        is_thorough=thorough,
        driver=device,
    )
    require_writable(report)
    found = (find_devices([device]) or [])[0]
    began, started = datetime.now(UTC), time.monotonic()
    if not faulthandler.is_enabled():
        faulthandler.enable()  # A driver in this process may end it. This shows where.
    with progress(f"checking {found.name}", quiet=json) as bar, Watch() as watch:

        def report_start(name: str, case: str) -> None:
            watch.begin(f"{name}; to run only this: {case_command(device, case)}" if case else name)

        results = list(run(found, plan, bar.advance_to, report_start))
    if case and not results:
        raise BadData(f"there is no case {case!r}; a report lists the names of the cases")
    done = SuiteRun(
        device=found,
        driver=device,
        plan=plan,
        results=results,
        began=began,
        took_s=time.monotonic() - started,
    )
    if report is not None:
        write(done, report)
    if json:
        write_json(document(done))
    else:
        _show(done)
        if report is not None:
            note(f"the report is in {report}")
    if done.failed:
        raise typer.Exit(1)


def _access(url: str, token_file: Path | None, tls: Path | None) -> "ServerAccess":
    from neurald.hal.rpc.transport.tls_files import TlsFiles
    from neurald.service.cli.options.service import read_token
    from neurald.service.inference.conformance.server_access import ServerAccess

    token = "" if token_file is None else read_token(token_file)
    return ServerAccess.of(url, token, None if tls is None else TlsFiles.in_folder(tls))


def _check_service(access: "ServerAccess", model: str, count: int, *, json: bool) -> None:
    """Checks a server of the V2 protocol, and shows the results."""
    import msgspec

    from neurald.service.conformance.result import Outcome
    from neurald.service.console.output import printable, progress, write_json, write_line, write_table
    from neurald.service.inference.conformance.suite import connect, run_checks

    client = connect(access)
    try:
        with progress(f"checking {access.target}", quiet=json) as bar:
            results = list(run_checks(client, model, _MUTATIONS * count, bar.advance_to))
    finally:
        client.close()
    failed = [each for each in results if each.outcome is Outcome.FAILED]
    if json:
        checks = [
            {
                "group": each.group,
                "check": each.label,
                "rule": each.subject,
                "outcome": each.outcome.value,
                "detail": each.detail,
            }
            for each in results
        ]
        write_json(msgspec.to_builtins({"service": access.url, "passed": not failed, "checks": checks}))
    else:
        write_table(
            ("checks", "outcome", "rule"),
            [(each.group, each.outcome.value, each.subject) for each in results],
        )
        for each in results:
            if each.detail:
                write_line(printable(f"{each.outcome.value}: {each.subject}: {each.detail}"))
    if failed:
        raise typer.Exit(1)


def _operations(names: Sequence[str]) -> tuple[Any, ...]:
    from neurald.hal.errors import BadData
    from neurald.hal.model.operation_type import OperationType

    unknown = [name for name in names if name not in OperationType.__members__]
    if unknown:
        raise BadData(f"there is no operation {unknown[0]!r}; docs/operations.md lists them")
    return tuple(OperationType[name] for name in names)


def _show(run: "SuiteRun") -> None:
    from collections import Counter

    from neurald.service.conformance.coverage import coverage
    from neurald.service.conformance.report import certified_by_operation, command
    from neurald.service.conformance.result import Outcome, count
    from neurald.service.console.output import note, printable, write_line, write_table

    write_line(printable(f"{run.device.name}, {run.device.version}"))
    rows = [
        (group, *(str(found[outcome]) for outcome in Outcome)) for group, found in count(run.results).items()
    ]
    columns = ("checks", *(outcome.value for outcome in Outcome))
    write_table(columns, rows, right=columns[1:])
    certified = certified_by_operation(coverage(run.results))
    if run.checks_nothing:
        note("the device declined every case, so nothing is certified")
    if certified:
        write_line()
        columns = ("operation", "forms and types certified", "cases passed")
        table = [(name, f"{right} of {taken}", str(cases)) for name, right, taken, cases in certified]
        write_table(columns, table, right=columns[1:])
    declined = Counter(
        (result.group, result.detail) for result in run.results if result.outcome is Outcome.DECLINED
    )
    if declined:
        write_line()
        write_line("declined:")
        for (group, reason), number in declined.most_common(_MAX_LISTED):
            _write_item(f"{number} of {group}: {reason}")
        if len(declined) > _MAX_LISTED:
            note(f"{len(declined) - _MAX_LISTED} more reasons; --report FILE writes all")
    if run.failed:
        write_line()
        write_line("failed:")
    for result in run.failed[:_MAX_LISTED]:
        label = f", {result.label}" if result.label else ""
        _write_item(f"{result.group}: {result.subject}{label}: {result.detail}")
        write_line(f"    {printable(command(run, result))}")
    if len(run.failed) > _MAX_LISTED:
        note(f"{len(run.failed) - _MAX_LISTED} more failed; --report FILE and --json list all")


def _write_item(text: str) -> None:
    """Writes a list item, wrapped to fit a narrow terminal."""
    from textwrap import wrap

    from neurald.service.console.output import printable, write_line

    for line in wrap(printable(text), 78, initial_indent="  ", subsequent_indent="    "):
        write_line(line)
