"""The command `neurald config`."""

from pathlib import Path
from typing import Annotated

import typer

from neurald.service.cli.options.output import JsonOption


def config(
    file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The configuration file.", show_default=False),
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Show the configuration of the machine's service manager.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Prints the configuration of the service manager, and where each value comes from."""
    import msgspec

    from neurald.service.console.output import write_json, write_table
    from neurald.service.manager.settings.configuration import Flags, load_configuration

    found = load_configuration(file, Flags(system=system))
    if json:
        write_json(msgspec.to_builtins(found))
        return
    values: dict[str, object] = {
        name: value
        for name, value in msgspec.to_builtins(found).items()
        if name not in ("drivers", "service", "remotes", "sources")
    }
    values["drivers"] = list(found.drivers)
    for name, settings in found.drivers.items():
        for field, value in msgspec.to_builtins(settings).items():
            values[f"drivers.{name}.{field}"] = value
    service = msgspec.to_builtins(found.service)
    tables = {table: service.pop(table) for table in ("limits", "trace", "metrics")}
    values |= {f"service.{name}": value for name, value in service.items()}
    for table, content in tables.items():
        values |= {f"service.{table}.{name}": value for name, value in content.items()}
    for name, remote in found.remotes.items():
        named = {field: value for field, value in msgspec.to_builtins(remote).items() if value}
        values[f"remotes.{name}"] = ", ".join(f"{field} {value}" for field, value in named.items())
    rows = [(name, _shown(value), found.sources[name]) for name, value in values.items()]
    write_table(("setting", "value", "source"), rows)


def _shown(value: object) -> str:
    """Returns a value as in the configuration file, without quotes and brackets; - for nothing."""
    if value is None or value in ("", [], (), {}):
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    return ", ".join(map(_shown, value)) if isinstance(value, list | tuple) else str(value)
