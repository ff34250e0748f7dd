"""The command `neurald verify`."""

from pathlib import Path
from typing import Annotated

import typer

from neurald.service.cli.options.devices import DevicesOption
from neurald.service.cli.options.model import ModelArgument, ShapeOption, SignatureOption, ThreadsOption
from neurald.service.cli.options.output import JsonOption


def verify(
    model: ModelArgument,
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="IN.npz", help="Inputs by tensor name, or by position, for one run."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many random inputs to compare. [default: 3]")
    ] = None,
    reference: Annotated[
        str,
        typer.Option(metavar="NAME", help="The device that is right, by default the reference kernels."),
    ] = "reference",
    signature: SignatureOption = None,
    shape: ShapeOption = None,
    device: DevicesOption = None,
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Runs a model on every device, or those that are named, and fails if one computes it wrong."""
    if inputs is not None and (shape or runs is not None):
        raise typer.BadParameter("--shape and --runs are for random inputs, and exclude --inputs")
    import neurald as nd
    from neurald.hal.errors import OpFailed
    from neurald.service.benchmark.model_check import ModelCheck, check_rows
    from neurald.service.console.device_choice import find_device, find_devices
    from neurald.service.console.missing_devices import MissingDevices
    from neurald.service.console.output import note, printable, status, write_json, write_table
    from neurald.service.tensors.arrays import (
        SEED,
        input_slots,
        output_slots,
        random_inputs,
        read_inputs,
    )
    from neurald.service.tensors.shapes import default_shape_remarks, parse_shapes

    loaded = nd.load_tflite(model, signature=signature)
    slots = input_slots(loaded)
    shapes = parse_shapes(shape or (), slots)
    if inputs is not None:
        sets = [read_inputs(inputs, slots)]
    else:
        sets = [random_inputs(slots, shapes, SEED + number) for number in range(runs or 3)]
    named = find_devices(device or ())
    devices = named or nd.devices()
    missing = None if named else MissingDevices.found()
    with status(f"running {model.name} on {reference}", quiet=json):
        right = find_device(reference)
        check = ModelCheck(loaded, [slot.key for slot in output_slots(loaded)], right, sets)
    found = []
    for checked in devices:
        with status(f"running {model.name} on {checked.name}", quiet=json):
            found.append(check.check(checked, threads))
    if json:
        write_json(
            {
                "model": str(model),
                "reference": right.name,
                "devices": found,
                **({} if missing is None else missing.fields()),
            }
        )
    else:
        if inputs is None:
            for remark in default_shape_remarks(slots, shapes):
                note(remark)
        titles = ("device", "operations", "runs", "largest", "differing", "result")
        rows = check_rows(found, len(loaded.main.operations))
        write_table(titles, rows, right=titles[1:5], shorten=("device",))
        for each in found:
            if each["result"] in ("undecided", "not run"):
                note(printable(f"{each['device']}: {each['reason']}"))
        if missing is not None:
            missing.show()
    bad = [each for each in found if each["result"] in ("wrong", "failed")]
    if bad:
        verbs = {"wrong": "is wrong", "failed": "failed"}
        texts = "; ".join(f"{each['device']} {verbs[each['result']]}: {each['reason']}" for each in bad)
        raise OpFailed(
            f"{len(bad)} of {len(found)} devices did not compute the same as {right.name}: {texts}"
        )
