"""The program of the front end's process, which `neurald serve` starts.

Its settings, which may have a secret, come as one line of JSON on standard input. Whenever its
state changes, or what clients have chosen, it writes it as one line of JSON to standard output,
also why it cannot start. It ends with the process that started it.
"""

import asyncio
import logging
import os
import sys
from typing import Final

import msgspec

from neurald.hal.decoding import from_json
from neurald.hal.errors import Error
from neurald.hal.open_file_limit import system_reason
from neurald.hal.process.descriptors import raise_descriptor_limit
from neurald.hal.process.memory.heap import keep_freed_memory, use_one_arena
from neurald.hal.process.parent import die_with
from neurald.service.inference.server.front_end_report import FrontEndReport
from neurald.service.inference.server.settings import ServiceSettings
from neurald.service.logs.setup import start_log
from neurald.service.manager.state import ServiceStatus

_FAILED: Final = 1
#: Other threads get their turn soon: those of gRPC wait for the interpreter.
_SWITCH_INTERVAL_S: Final = 5e-4


def main(parent: int) -> int:
    """Runs the front end; returns its exit status.

    Args:
        parent: id of the process that started it.
    """
    die_with(parent)
    settings = from_json(sys.stdin.buffer.readline(), ServiceSettings)
    start_log(settings.workers.log_format, settings.workers.log_level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # The thread that waits for events of gRPC also receives and sends, instead of being woken by
    # one.
    os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")
    raise_descriptor_limit()
    # Requests and answers take as much memory as those before.
    use_one_arena()
    keep_freed_memory()
    from neurald.service.inference.server.front_end import FrontEnd

    def report(found: FrontEndReport) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        sys.stdout.flush()

    async def run() -> None:
        await FrontEnd(settings).run(report)

    try:
        asyncio.run(run())
    except Error as error:
        report(FrontEndReport(status=ServiceStatus(process=None, failure=str(error))))
        return _FAILED
    except OSError as error:
        reason = f"{error.filename}: {system_reason(error)}" if error.filename else system_reason(error)
        report(FrontEndReport(status=ServiceStatus(process=None, failure=reason)))
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
