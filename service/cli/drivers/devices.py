"""The command `neurald devices`."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neurald.hal.wording import milliseconds, three_digits
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    from neurald.hal.model.extension import Extension


#: How long to wait for drivers that have never run. Those that take longer go on starting.
_WAIT_S = 1.0


def devices(
    costs: Annotated[
        bool,
        typer.Option(
            "--costs", help="Show what operations, launches and transfers cost, as far as it was measured."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Lists the devices and their properties, and installed drivers that cannot start."""
    import time

    from neurald.runtime.devices import discovery
    from neurald.runtime.devices.extensions import conflicts
    from neurald.runtime.devices.measuring import measure_new
    from neurald.service.console.cost_tables import describe_costs, show_costs
    from neurald.service.console.missing_devices import MissingDevices
    from neurald.service.console.output import status, write_json

    with status("looking for devices", quiet=json):
        # Who looks wants to know whether a driver that could not start can do so now.
        measure_new(time.monotonic() + _WAIT_S, retries=True)
        listed = discovery.devices()
        disabled = conflicts(listed)
        found = [_describe(device, disabled) for device in listed]
        missing = MissingDevices.found()
    described = describe_costs(listed) if costs else {}
    if json:
        write_json(
            {
                "devices": found,
                **missing.fields(),
                **({"costs": described} if costs else {}),
            }
        )
    else:
        if costs:
            show_costs(described)
        else:
            _show(found)
        missing.show()
        _show_unheeded_variables()


def _describe(device: Any, disabled: Mapping[str, str]) -> dict[str, Any]:
    from neurald.hal.device import declared_extensions
    from neurald.hal.errors import Error
    from neurald.service.console.device_choice import address, daemon, link, performance

    description: dict[str, Any] = {
        "name": device.name,
        "type": device.type.name,
        "version": device.version,
        "feature_level": device.feature_level.name,
        "address": address(device),
        "is_started": getattr(device, "is_started", True),
        "extensions": list(device.extensions),
        "declared_extensions": [_declaration(extension) for extension in declared_extensions(device)],
        "disabled_extensions": {
            extension.name: disabled[extension.name]
            for extension in declared_extensions(device)
            if extension.name in disabled
        },
    }
    try:
        description["performance"] = performance(device)
        description["link"] = link(device)
        description["daemon"] = daemon(device)
    except Error as error:
        # A daemon that dies in the meantime must not prevent the others from being listed.
        description["error"] = str(error)
    return description


def _declaration(extension: "Extension") -> dict[str, Any]:
    return {
        "name": extension.name,
        "operations": {operation.name: operation.code for operation in extension.operations},
        "operand_types": {
            kind.name: {"code": kind.code, "is_tensor": kind.is_tensor, "element_bytes": kind.element_bytes}
            for kind in extension.operand_types
        },
        "compilation_attributes": {each.name: each.code for each in extension.compilation_attributes},
        "execution_attributes": {each.name: each.code for each in extension.execution_attributes},
    }


def _show(found: list[dict[str, Any]]) -> None:
    from neurald.service.console.output import note, printable, write_line, write_table

    columns = ("device", "type", "where", "time f32 | q8", "power f32 | q8")
    rows = []
    for device in found:
        figures = device.get("performance", {})
        pairs = [
            " | ".join(
                "-" if figures.get(kind) is None else f"{figures[kind][what]:.2f}"
                for kind in ("float32", "quant8")
            )
            for what in ("exec_time", "power_usage")
        ]
        address = device["address"]
        where = "in process" if address is None else "this host" if address.startswith("unix:") else address
        rows.append((device["name"], device["type"], where, *pairs))
    write_table(columns, rows, right=columns[3:])
    for device in found:
        level = f"level {device['feature_level'].removeprefix('LEVEL_')}"
        facts = ", ".join(filter(None, (device["address"], level, device["version"])))
        write_line(printable(f"{device['name']}: {facts}"))
    for device in found:
        if not device["is_started"]:
            note(f"{device['name']}: its driver starts when a model is prepared for it")
        if "error" in device:
            note(f"{device['name']}: {device['error']}")
        if found_link := device.get("link"):
            note(
                f"{device['name']}: on another host, {milliseconds(found_link['latency_s'])} and "
                f"{three_digits(found_link['bytes_per_s'] / 1e6)} MB/s away"
            )
        for weakness in _weaknesses(device.get("daemon")):
            note(f"{device['name']}: {weakness}")
        for extension in device["declared_extensions"]:
            kinds = ("operations", "operand_types", "compilation_attributes", "execution_attributes")
            names = ", ".join(name for kind in kinds for name in extension[kind])
            note(f"{device['name']}: extension {extension['name']} with {names}")
        for name, reason in device["disabled_extensions"].items():
            note(f"{device['name']}: extension {name} is disabled: {reason}")


def _show_unheeded_variables() -> None:
    from neurald.hal.errors import Error
    from neurald.hal.process.activation import MANAGER_SOCKET, is_served
    from neurald.hal.process.files.runtime_directory import runtime_directory
    from neurald.service.console.output import note

    if not is_served(runtime_directory() / MANAGER_SOCKET):
        return
    from neurald.service.manager.control import manager_status
    from neurald.service.manager.unheeded_variables import unheeded_variables

    try:
        sentences = unheeded_variables(manager_status())
    except Error:  # `neurald status` and `neurald doctor` examine the manager
        return
    for sentence in sentences:
        note(f"{sentence}; `neurald doctor` says how to change that")


def _weaknesses(daemon: dict[str, Any] | None) -> Iterator[str]:
    """Yields the security weaknesses of a daemon that its operator should know."""
    if daemon is None:
        return
    if daemon["access"] == "ANYBODY":
        yield "any client that can reach the daemon may use it (--insecure)"
    if not daemon["sandbox"]:
        yield "the daemon's process is not in a sandbox"
    elif daemon["sandbox_missing"]:
        yield f"the sandbox of the daemon's process lacks {', '.join(daemon['sandbox_missing'])}"
