"""The command `neurald doctor`."""

from typing import Annotated

import typer

from neurald.service.cli.options.output import JsonOption


def doctor(
    devices: Annotated[
        bool, typer.Option(help="Let each device compute something; this starts their drivers.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Says what is installed, what is wrong, and how to mend it.

    Examines the machine, the packages, the settings, the directories, the service manager and the
    devices. The exit status is 1 if it finds a problem.
    """
    import msgspec

    from neurald.service.console.output import printable, status, write_json, write_line, write_table
    from neurald.service.diagnosis.diagnosis import diagnose
    from neurald.service.diagnosis.finding import Severity

    with status("examining the installation", quiet=json):
        found = list(diagnose(with_devices=devices))
    if json:
        write_json([{"area": area, **msgspec.to_builtins(each)} for area, each in found])
    else:
        write_table(
            ("", "area", "subject", "found"),
            [
                ("" if each.severity is Severity.OK else each.severity.value, area, each.subject, each.found)
                for area, each in found
            ],
        )
        for area, each in found:
            if each.advice:
                write_line(printable(f"{each.severity.value}: {area}, {each.subject}: {each.advice}"))
        counts = [
            f"{count} {severity.value}{'s' * (count != 1)}"
            for severity in (Severity.PROBLEM, Severity.WARNING, Severity.NOTE)
            if (count := sum(each.severity is severity for _, each in found))
        ]
        write_line(", ".join(counts) or "nothing is wrong")
    if any(each.severity is Severity.PROBLEM for _, each in found):
        raise typer.Exit(1)
