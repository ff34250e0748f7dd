"""The command `neurald calibrate`."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from neurald.service.cli.options.completion import device_names
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from neurald.service.console.output import Progress

#: If programs waited for a processor for a larger share of the time, others have disturbed.
_DISTURBED: Final = 0.25


def calibrate(
    device: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=device_names,
            metavar="NAME",
            help="Calibrate this device only: a name from `neurald devices`, a driver, module:factory, or "
            "the address of a daemon. May be repeated.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measures the costs of operations, launches and transfers, in 20 to 30 seconds per device.

    It takes less if an earlier calibration found the same, and more if that found shorter times.
    The costs are kept for this machine, the device and its driver's version. Compilations choose
    devices by them, and real runs refine them. Other programs should be quiet meanwhile.
    """
    import neurald as nd
    from neurald.hal.errors import Error
    from neurald.runtime.costs import store
    from neurald.runtime.costs.calibration import calibrate
    from neurald.runtime.execution.step_calibration import with_step
    from neurald.service.console.cost_tables import describe_costs, show_costs
    from neurald.service.console.device_choice import find_devices
    from neurald.service.console.output import note, progress, write_json
    from neurald.service.console.processor_pressure import ProcessorPressure

    chosen = find_devices(device or ()) or list(nd.devices())
    failures = {}
    measured = []
    pressure = ProcessorPressure()
    for each in chosen:
        with progress(f"calibrating {each.name}", quiet=json) as bar:
            try:
                earlier = store.costs_of(each).table
                table = with_step(calibrate(each, _shown(bar), earlier), each, earlier)
            except Error as error:
                failures[each.name] = str(error)
                continue
        store.costs_of(each).use(table)
        measured.append(each)
    waiting = pressure.share()
    store.save(at_once=True)
    described = describe_costs(measured)
    if json:
        write_json({**described, "failures": failures, "waiting": waiting})
    else:
        show_costs(described)
        for name, reason in failures.items():
            note(f"{name} was not calibrated: {reason}")
        if waiting is not None and waiting > _DISTURBED:
            note(
                f"programs waited for a processor in {waiting:.0%} of the time, so costs may be too high; "
                "calibrate again when the machine is quiet"
            )
    if failures:
        raise typer.Exit(1)


def _shown(bar: "Progress") -> "Callable[[int, int], None]":
    return lambda done, total: bar.advance_to(done / total)
