"""The command `neurald demo`."""

from neurald.service.cli.options.output import JsonOption


def demo(
    json: JsonOption = False,
) -> None:
    """Classifies digits in this process, in a temporary driver daemon, and by a temporary service.

    The service is asked with curl over HTTP, and with tritonclient over gRPC, if they are
    installed.
    """
    import sys

    from neurald.service.console.output import write_json
    from neurald.service.demo.demo import run, show

    found = run(quiet=json)
    if not json:
        show(found, sys.stdout.encoding or "ascii")
        return
    devices = [
        {
            "device": result.device,
            "address": result.address,
            "accuracy": result.accuracy(found.digits.labels),
            "latency": result.latency,
        }
        for result in found.results
    ]
    http = found.http
    write_json(
        {
            "digits": len(found.digits.images),
            "devices": devices,
            "http": None
            if http is None
            else {
                "command": http.command,
                "url": http.url,
                "guess": http.guess,
                "devices": list(http.devices),
            },
            "notes": list(found.notes),
        }
    )
