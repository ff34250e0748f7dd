"""Injects faults into driver daemons under load to detect wrong results, hangs and leaks.

    .venv/bin/python tests/faults/run.py --count 200 --seed 1
    .venv/bin/python tests/faults/run.py --attacks --seconds 20 --json attacks.json
    .venv/bin/python tests/faults/run.py --soak --minutes 30 --json soak.json
    .venv/bin/python tests/faults/run.py --soak --service --minutes 30
    .venv/bin/python tests/faults/run.py --matrix --count 1000 --json matrix.json
    .venv/bin/python tests/faults/run.py --kills --seconds 280 --json kills.json
    .venv/bin/python tests/faults/run.py --plans --seconds 60 --json plans.json
    .venv/bin/python tests/faults/run.py --receipts 100000 --json receipts.json
    .venv/bin/python tests/faults/run.py --heal --device opencl --count 20 --json heal.json
    .venv/bin/python tests/faults/run.py --swaps --count 1000 --json swaps.json
    .venv/bin/python tests/faults/run.py --updates --count 100000 --clients 64 --json updates.json

Scenarios are drawn and played one after another (`scenarios/scenario.py`), while 8 clients call:
half of them are threads that use the devices directly and receive their errors
(`scenarios/client.py`); half are application processes, for which the CPU replaces devices, so that
every call must succeed (`scenarios/application.py`). Then clients come and go, in order or killed,
and the daemon's resources must not grow (`scenarios/leak.py`). The seed determines what is drawn,
but not the timing.

With `--attacks` hostile clients attack a daemon (`attacks/kinds/`), one class of attacks after
another, while an honest client measures its calls (`attacks/attacked.py`). Attackers run at the
lowest priority. On machines with at least four cores they get a separate quarter of them; on others
the client's calls without attack are measured beside ordinary programs that compute
(`attacks/cores.py`). The comparison thus shows what the daemon lets attackers take, not their own
computations. With `--soak` clients use a daemon for a long time, and its resources must not grow
(`soak/soak.py`); with `--service` it is the execution service, whose models come and go
(`soak/service_soak.py`). With `--kills` the processes of an execution service are killed and
stopped while clients call it in every way (`service_kills.py`). With `--matrix` each of six faults
strikes in each of eight phases of a call, under the service manager (`managed/matrix.py`), in as
many jobs as the cores allow (`managed/matrix_jobs.py`). With `--plans` drivers of plans over
several devices are killed, stopped, hang and lie (`plans/play.py`); with `--receipts` all calls are
executions with receipts, until there are that many. With `--heal` the process of an installed
driver is killed and stopped during executions on its device (`managed/heal.py`). With `--updates` a
driver is replaced again and again while its clients call (`managed/update.py`). With `--swaps` the
first tiers of models are replaced by optimised code under threads, while compiling processes and
daemons are killed, disks are full, and the application is forked, interrupted, and out of memory or
descriptors (`swap.py`). All exit with 1 if anything was wrong, too slow,
or grew.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from faults import swap  # noqa: E402
from faults.attacks import attack_run  # noqa: E402
from faults.attacks.catalogue import ATTACKS  # noqa: E402
from faults.field import Child, Field  # noqa: E402
from faults.managed import heal, matrix_jobs, update  # noqa: E402
from faults.managed.matrix import cells_of  # noqa: E402
from faults.plans import play  # noqa: E402
from faults.proc import Held, shared_memory_entries  # noqa: E402
from faults.scenarios.client import CALL_S, SLACK_S, Client  # noqa: E402
from faults.scenarios.leak import rounds  # noqa: E402
from faults.scenarios.scenario import SCENARIOS  # noqa: E402
from faults.soak import soak  # noqa: E402

CLIENTS = 8
ROUNDS = 20
#: Time limit for releasing resources.
_SETTLE_S = 30.0
#: An application may wait a minute for a device in back-off.
_REPORT_S = 180.0


def run(
    names: Sequence[str], seed: int, *, clients: int = CLIENTS, leak_rounds: int = ROUNDS
) -> dict[str, Any]:
    """Plays scenarios and leak rounds; returns a report with all failures.

    Args:
        names: the names of the scenarios, in order.
        seed: determines everything that is drawn.
        clients: their number; half of them are processes.
        leak_rounds: their number; 0 for none.
    """
    entries = shared_memory_entries()
    with tempfile.TemporaryDirectory(prefix="nf") as folder:
        field = Field(Path(folder), seed)
        try:
            report = _play(field, names, clients, seed) if names else {"wrong": []}
            if leak_rounds:
                report["leaks"], wrong = rounds(field, leak_rounds, clients)
                report["wrong"] += wrong
        finally:
            field.close()
        report["wrong"] += field.wrong
    if shared_memory_entries() > entries:
        report["wrong"].append(f"{shared_memory_entries()} entries of /dev/shm; there were {entries}")
    return report


def _play(field: Field, names: Sequence[str], clients: int, seed: int) -> dict[str, Any]:
    probe = Client(field.address, seed)
    _until_right(probe)  # creates what is created once, such as gRPC's threads
    before = Held.here()
    applications = [field.start("scenarios.application", number) for number in range(clients // 2)]
    for application in applications:
        application.wait_ready()
    group = [Client(field.address, number + 1) for number in range(clients - len(applications))]
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in group]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    try:
        for name in names:
            SCENARIOS[name](field)
            field.pause()
    finally:
        stop.set()
        for thread in threads:
            thread.join(2 * (CALL_S + SLACK_S))
        reports = [_report(application) for application in applications]
    wrong = [line for client in group for line in client.wrong]
    wrong += [f"{thread.name} hangs" for thread in threads if thread.is_alive()]
    outcomes: Counter[str] = Counter()
    for client in group:
        outcomes.update(client.outcomes)
    for report in reports:
        wrong += report["wrong"]
        outcomes.update(report["outcomes"])
    del group, threads, applications
    _until_right(probe)
    probe.close()
    wrong += _leaks(before)
    return {
        "played": dict(Counter(names)),
        "seconds": round(time.monotonic() - started, 1),
        "outcomes": dict(sorted(outcomes.items())),
        "applications": [
            {k: v for k, v in each.items() if k not in ("outcomes", "wrong")} for each in reports
        ],
        "wrong": wrong + probe.wrong,
    }


def _report(application: Child) -> dict[str, Any]:
    text = application.report(_REPORT_S)
    report: dict[str, Any] = (
        json.loads(text) if text else {"outcomes": {}, "wrong": ["an application hangs or died"]}
    )
    return report


def _until_right(client: Client) -> None:
    """Calls until one call of each way succeeds, which shows that the daemon serves again."""
    end = time.monotonic() + 60
    client.outcomes.clear()
    while sum(key.endswith(": right") for key in client.outcomes) < 3:
        client.call()
        if time.monotonic() > end:
            client.wrong.append(f"the daemon does not serve again: {dict(client.outcomes)}")
            return


def _leaks(before: Held) -> list[str]:
    end = time.monotonic() + _SETTLE_S
    while True:
        # Memory is checked by `scenarios/leak.py`, where nothing else happens.
        more = Held.here().more_than(before, descriptors=8, threads=4, rss_bytes=1 << 30)
        if not more or time.monotonic() > end:
            return more
        time.sleep(0.1)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--count",
        type=int,
        default=50,
        help="scenarios to play, how often each cell, calls during updates, or models",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only these")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds that look for leaks")
    parser.add_argument(
        "--attacks", nargs="*", metavar="NAME", help="play these attacks in place; all without names"
    )
    parser.add_argument("--list", action="store_true", help="name the attacks")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="how long each attack lasts, or processes are killed"
    )
    parser.add_argument("--soak", action="store_true", help="use one daemon for a long time in place")
    parser.add_argument("--service", action="store_true", help="use the execution service in its place")
    parser.add_argument(
        "--minutes", type=float, help="how long that is, by default 30, or the matrix may be at most"
    )
    parser.add_argument("--matrix", action="store_true", help="play the kill matrix in place")
    parser.add_argument(
        "--jobs",
        type=int,
        help="cells of the matrix to play at a time; by default two for each three cores, with which limits "
        "of time hold; with more, so many of them play as do not delay each other",
    )
    parser.add_argument(
        "--cores", type=int, help="processor cores that a job of the matrix uses; by default all"
    )
    parser.add_argument(
        "--cell",
        action="append",
        metavar="FAULT, PHASE",
        help="play only these cells of the matrix, such as 'endless, drain'",
    )
    parser.add_argument("--plans", action="store_true", help="let faults strike drivers of plans in place")
    parser.add_argument(
        "--receipts",
        type=int,
        default=0,
        help="the same until this many executions have a receipt, and nothing else is called",
    )
    parser.add_argument("--kills", action="store_true", help="kill an execution service in place")
    parser.add_argument("--heal", action="store_true", help="kill and stop an installed driver in place")
    parser.add_argument("--device", default="opencl", help="the name of that driver and its device")
    parser.add_argument("--updates", action="store_true", help="replace a driver under load in place")
    parser.add_argument("--swaps", action="store_true", help="replace first tiers under faults in place")
    parser.add_argument(
        "--slack",
        type=float,
        default=1.0,
        help="factor of limits of time of the matrix, plans, healing and updates",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the report there, except that of scenarios"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops the daemons, too
    if arguments.list:
        sys.stdout.write("\n".join(ATTACKS) + "\n")
        return 0
    if arguments.attacks is not None:
        if unknown := set(arguments.attacks) - set(ATTACKS):
            parser.error(f"there is no attack {sorted(unknown)}; --list names them")
        return attack_run.main(arguments.attacks or list(ATTACKS), arguments.seconds, arguments.json)
    if arguments.matrix:
        all_cells = {", ".join(cell): cell for cell in cells_of(1)}
        if unknown := {*(arguments.cell or ())} - {*all_cells}:
            parser.error(f"there is no cell {sorted(unknown)}; there are {'; '.join(all_cells)}")
        return matrix_jobs.run(
            [all_cells[name] for name in arguments.cell or all_cells] * arguments.count,
            arguments.jobs,
            arguments.cores,
            arguments.slack,
            arguments.minutes,
            arguments.json,
        )
    if arguments.plans or arguments.receipts:
        return play.main(
            arguments.seconds, arguments.seed, arguments.slack, arguments.json, arguments.receipts
        )
    if arguments.heal:
        return heal.main(arguments.device, arguments.count, arguments.slack, arguments.json)
    if arguments.updates:
        return update.main(arguments.count, arguments.clients, arguments.slack, arguments.json)
    if arguments.swaps:
        return swap.main(arguments.count, arguments.seed, arguments.json)
    if arguments.kills:
        from faults import service_kills  # needs tritonclient

        return service_kills.main(arguments.seconds, arguments.seed, arguments.json)
    if arguments.soak and arguments.service:
        from faults.soak import service_soak  # needs tritonclient

        return service_soak.main(30.0 if arguments.minutes is None else arguments.minutes, arguments.json)
    if arguments.soak:
        return soak.main(30.0 if arguments.minutes is None else arguments.minutes, arguments.json)
    names = random.Random(arguments.seed).choices(arguments.scenario or list(SCENARIOS), k=arguments.count)
    report = run(names, arguments.seed, clients=arguments.clients, leak_rounds=arguments.rounds)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
