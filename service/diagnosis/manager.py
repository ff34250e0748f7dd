"""Examines the service manager and its drivers."""

from collections.abc import Iterator

from neurald.hal.errors import BadData, Error
from neurald.hal.process.activation import MANAGER_SOCKET, is_served
from neurald.hal.process.autostart import autostart_settings
from neurald.hal.process.files.runtime_directory import runtime_directory
from neurald.hal.wording import counted
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.manager.control import manager_status
from neurald.service.manager.state import DriverState, DriverStatus
from neurald.service.manager.unheeded_variables import unheeded_variables


def examine_manager() -> Iterator[Finding]:
    """Yields whether a service manager runs or would be started, and the states of its drivers."""
    if not is_served(runtime_directory() / MANAGER_SOCKET):
        yield _start()
        return
    try:
        found = manager_status()
    except Error as error:
        yield Finding(
            subject="service manager",
            found=str(error),
            severity=Severity.PROBLEM,
            advice="end its process and start `neurald serve` again",
        )
        return
    yield Finding(
        subject="service manager",
        found=f"process {found.process} supervises {counted(len(found.drivers), 'driver')} in {found.directory}",
    )
    for sentence in unheeded_variables(found):
        yield Finding(
            subject="service manager",
            found=sentence,
            severity=Severity.WARNING,
            advice=f"end it with `kill {found.process}`, so that it starts anew with these variables, or set "
            "them in the configuration file",
        )
    for each in found.drivers:
        yield from _driver(each)


def examine_starts() -> Iterator[Finding]:
    """Yields the drivers of the service manager whose process did not become ready."""
    if not is_served(runtime_directory() / MANAGER_SOCKET):
        return
    for each in manager_status().drivers:
        if each.is_unable:
            yield Finding(
                subject=f"driver {each.name}",
                found=each.reason or "its process did not become ready",
                severity=Severity.PROBLEM,
                advice=f"mend the cause, or remove the driver from the configuration; "
                f"`neurald restart {each.name}` tries again",
            )


def _start() -> Finding:
    try:
        settings = autostart_settings()
    except BadData as error:
        return Finding(
            subject="service manager",
            found=str(error),
            severity=Severity.PROBLEM,
            advice="correct or remove the variable",
        )
    if not settings.obstacle:
        return Finding(
            subject="service manager", found="does not run; applications start it when they need it"
        )
    return Finding(
        subject="service manager",
        found=f"does not run, and applications do not start it: {settings.obstacle}",
        severity=Severity.WARNING if settings.is_unexpected else Severity.NOTE,
        advice="`neurald serve` starts it"
        if not settings.is_unexpected
        else "mend that, or start `neurald serve`",
    )


def _driver(status: DriverStatus) -> Iterator[Finding]:
    subject = f"driver {status.name}"
    found = status.state.value + (f": {status.reason}" if status.reason else "")
    if status.state is DriverState.QUARANTINED:
        yield Finding(
            subject=subject,
            found=found,
            severity=Severity.PROBLEM,
            advice=f"`neurald status` shows its last lines; `neurald restart {status.name}` tries again",
        )
    elif status.state is DriverState.BACKOFF:
        yield Finding(
            subject=subject,
            found=found,
            severity=Severity.WARNING,
            advice="it is started again after a pause; `neurald status` shows its last lines",
        )
    else:
        yield Finding(subject=subject, found=found)
    for pattern in status.patterns:
        yield Finding(
            subject=subject,
            found=f"{pattern.deaths} processes died of {pattern.operations} ({pattern.cause} while {pattern.phase})",
            severity=Severity.WARNING if pattern.is_refused else Severity.NOTE,
            advice=f"it is no longer given to the driver; `neurald forgive {status.name} {pattern.id[:12]}` lets it try"
            if pattern.is_refused
            else "after another death it is no longer given to the driver",
        )
    if status.sandbox in ("off", "partial"):
        lacks = "is off" if status.sandbox == "off" else f"lacks {', '.join(status.sandbox_missing)}"
        yield Finding(subject=subject, found=f"its sandbox {lacks}", severity=Severity.NOTE)
