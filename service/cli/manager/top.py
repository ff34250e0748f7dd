"""The command `neurald top`."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.options.manager import SystemOption

if TYPE_CHECKING:
    from neurald.service.console.output import TableText
    from neurald.service.manager.snapshot import DriverSnapshot
    from neurald.service.manager.state import ManagerStatus
    from neurald.service.telemetry.page_state import ModelState, PageState

_MIB = 1 << 20
_COLUMNS = ("driver", "state", "process", "cores", "MiB", "sessions", "deaths", "last exit or reason")
_RIGHT = ("process", "cores", "MiB", "sessions", "deaths")
_SPARE = ("process", "sessions", "MiB", "cores")
_MODEL_COLUMNS = ("model", "state", "wait", "run", "done", "failed", "p50 ms", "p99 ms", "devices")
_MODEL_RIGHT = ("wait", "run", "done", "failed", "p50 ms", "p99 ms")
_MODEL_SPARE = ("run", "p50 ms", "done", "wait")
#: Ends the command.
_QUIT = "q"


def top(
    interval: Annotated[
        float, typer.Option(metavar="S", min=0.1, max=3600, help="Seconds from one table to the next.")
    ] = 1.0,
    count: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many tables to show. [default: until q or Ctrl-C is pressed; one if the output is "
            "not a terminal]",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, the last measurement.")
    ] = False,
    web: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Show the models and queues of the execution service whose live page, which "
            "`neurald serve --web` serves, is at this address, and the drivers of its host. "
            "[default: those of the service manager]",
        ),
    ] = None,
    auth_token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --web: the token of the service.")
    ] = None,
    system: SystemOption = False,
) -> None:
    """Shows what the drivers of the service manager use, and its models, again and again.

    The figures of a driver include the processes that compile for it; those of models need the
    live page of `neurald serve --web`. A window that is too narrow shows the most important ones.
    Press q to leave.
    """
    import msgspec

    from neurald.service.console.keys import pressed, single_keys
    from neurald.service.console.output import live_tables, note, write_json, write_line, write_table

    if auth_token_file is not None and web is None:
        raise typer.BadParameter("--auth-token-file needs --web")
    measure = _of_manager(system=system) if web is None else _of_page(web, auth_token_file)
    found = measure()
    if found.drivers_problem and not json:
        note(f"no drivers are shown: {found.drivers_problem}")
    if not sys.stdout.isatty() or json:
        for number in range(count or 1):
            if number or count is not None:
                pressed(_QUIT, interval)
                found = measure()
            for place, table in enumerate(() if json else _tables(found)):
                if place:
                    write_line()
                write_table(table.columns, table.rows, right=table.right)
        if json:
            write_json(msgspec.to_builtins(found.drivers if web is None else found))
        return
    with single_keys(), live_tables() as show:
        shown = 0
        while True:
            show(_tables(found))
            shown += 1
            if shown == count or pressed(_QUIT, interval):
                return
            found = measure()


def _of_manager(*, system: bool) -> "Callable[[], PageState]":
    """Returns a function that asks the service manager."""
    from neurald.service.console.process_usage import UsageMeter
    from neurald.service.manager.control import manager_status
    from neurald.service.manager.snapshot import driver_snapshots
    from neurald.service.telemetry.page_state import PageState

    meter = UsageMeter()

    def measure() -> PageState:
        status = manager_status(system=system)
        return PageState(models=_models_of(status), drivers=tuple(driver_snapshots(status, meter)))

    return measure


def _models_of(status: "ManagerStatus") -> "tuple[ModelState, ...]":
    """Returns the models of a manager's service, with figures if its live page has them."""
    from neurald.hal.errors import BadData, UnavailableDevice
    from neurald.service.telemetry.page_state import ModelState, read_page_state

    if status.service is None:
        return ()
    page = status.service.addresses.get("web")
    if page is not None:
        # It may want a token, which only `--auth-token-file` names.
        with contextlib.suppress(BadData, UnavailableDevice):
            return read_page_state(page).models
    return tuple(
        ModelState(
            name=each.name,
            version=each.version,
            is_ready=each.is_ready,
            reason=each.reason,
            devices=each.devices,
        )
        for each in status.service.models
    )


def _of_page(address: str, token_file: Path | None) -> "Callable[[], PageState]":
    """Returns a function that asks a live page."""
    from neurald.service.cli.options.service import read_token
    from neurald.service.telemetry.page_state import read_page_state

    token = "" if token_file is None else read_token(token_file)
    return lambda: read_page_state(address, token)


def _tables(found: "PageState") -> "list[TableText]":
    from neurald.service.console.output import TableText

    drivers = TableText(
        columns=_COLUMNS,
        rows=[_row(each) for each in found.drivers],
        right=_RIGHT,
        shorten=_COLUMNS[-1:],
        spare=_SPARE,
    )
    if not found.models:
        return [drivers]
    models = TableText(
        columns=_MODEL_COLUMNS,
        rows=[_model_row(each) for each in found.models],
        right=_MODEL_RIGHT,
        shorten=(_MODEL_COLUMNS[0], _MODEL_COLUMNS[-1]),
        spare=_MODEL_SPARE,
    )
    return [models, drivers] if found.drivers else [models]


def _model_row(model: "ModelState") -> tuple[str, ...]:
    times = model.latency_ms or {}
    figures = (
        f"{model.name} {model.version}".strip(),
        "READY" if model.is_ready else "NOT READY",
        model.waiting,
        model.running,
        model.requests,
        None if model.failures is None else model.failures + (model.refused or 0),
        *(f"{times[name]:.2f}" if name in times else None for name in ("p50", "p99")),
        model.reason or ", ".join(dict.fromkeys(model.devices)),
    )
    return tuple("-" if each in (None, "") else str(each) for each in figures)


def _row(driver: "DriverSnapshot") -> tuple[str, ...]:
    figures = (
        driver.driver,
        driver.state,
        driver.process,
        None if driver.cores is None else f"{driver.cores:.2f}",
        None if driver.memory_bytes is None else driver.memory_bytes // _MIB,
        driver.sessions,
        driver.deaths,
        driver.reason,
    )
    return tuple("-" if each in (None, "") else str(each) for each in figures)
