"""The command `neurald demo`."""

from typing import Annotated

import typer


def demo(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Classifies digits in this process and in a temporary driver daemon."""
    import sys

    from neurald.service.console.output import write_json
    from neurald.service.demo.demo import run, show

    digits, results = run(quiet=json)
    if not json:
        show(digits, results, sys.stdout.encoding or "ascii")
        return
    devices = [
        {
            "device": result.device,
            "address": result.address,
            "accuracy": result.accuracy(digits.labels),
            "latency": result.latency,
        }
        for result in results
    ]
    write_json({"digits": len(digits.images), "devices": devices})
