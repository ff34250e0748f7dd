"""The command `neurald compile`."""

from pathlib import Path
from typing import Annotated

import typer

from neurald.service.cli.options.completion import model_files
from neurald.service.cli.options.devices import DevicesOption
from neurald.service.cli.options.model import ThreadsOption
from neurald.service.cli.options.output import JsonOption


def compile(  # noqa: A001 - the name of the command
    model: Annotated[
        Path | None,
        typer.Argument(
            autocompletion=model_files, metavar="MODEL", help="A .tflite file.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan file here.")
    ] = None,
    device: DevicesOption = None,
    threads: ThreadsOption = None,
    signature: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compile this signature of the file.")
    ] = None,
    public_key: Annotated[
        bool,
        typer.Option(
            "--public-key", help="Print the key that plan files are signed with, for other machines."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compiles a model to a plan file, which `neurald run` and `nd.load_plan` need not compile.

    The file has the model, the plan, the compiled code and what devices cost. It is signed with a
    key of this user. Another machine loads it if it trusts the key: put what --public-key prints
    into a file NAME.pub in $XDG_CONFIG_HOME/neurald/plan_keys or /etc/neurald/plan_keys there.
    """
    from neurald.hal.wording import sized
    from neurald.service.console.output import note, printable, status, write_json, write_line, write_table
    from neurald.service.console.output_files import require_writable

    if public_key:
        import platform

        from neurald.runtime.plan_files.keys import SigningKey, key_line

        line = key_line(SigningKey().public, platform.node())
        if json:
            write_json({"key": line})
        else:
            write_line(line)
        if model is None:
            return
    if model is None:
        raise typer.BadParameter("no model is given; a .tflite file is expected", param_hint="MODEL")
    if output is None:
        raise typer.BadParameter("--output FILE is expected with a model: the plan file to write")
    require_writable(output)
    import neurald as nd
    from neurald.service.console.device_choice import find_devices

    with status(f"compiling {model.name}", quiet=json):
        steps = nd.save_plan(model, output, find_devices(device or ()), threads, signature=signature)
    if json:
        described = [
            {
                "device": each.device,
                "operations": each.operations,
                "size_bytes": each.size_bytes,
                "reason": each.reason,
            }
            for each in steps
        ]
        write_json({"model": str(model), "file": str(output), "steps": described})
        return
    rows = [
        (each.device, str(each.operations), sized(each.size_bytes) if not each.reason else "-")
        for each in steps
    ]
    write_table(("device", "operations", "size"), rows, right=("operations", "size"))
    for each in steps:
        if each.reason:
            note(printable(f"a step of {each.device} will be compiled when it is loaded: {each.reason}"))
