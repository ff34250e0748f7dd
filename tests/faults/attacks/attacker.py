"""A process that attacks a daemon until its input ends, and then reports what came of it.

python -m faults.attacks.attacker NAME INTENSITY ADDRESS PROCESS FOLDER [CORE ...]
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from faults.attacks.attack import Target
from faults.attacks.catalogue import ATTACKS
from faults.proc import input_ends


def main(name: str, intensity: str, address: str, process: str, folder: str, *cores: str) -> dict[str, Any]:
    """Attacks, on the given cores if any; returns the report."""
    # Processor time used by the attacker is the scheduler's matter, not the daemon's. At this
    # policy every other process preempts it at once; a nice one would still finish its time slice.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores})
    target = Target(address=address, process=int(process), folder=Path(folder))
    attack = ATTACKS[name](target, float(intensity))
    attack.start()
    steps = 0
    try:
        ended = input_ends()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not steps or not ended.is_set():
            attack.step()
            steps += 1
    except Exception:  # the failure of an attack is a fault of itself or of its target
        attack.expect(False, traceback.format_exc())
    finally:
        attack.stop()
    return {"steps": steps, "outcomes": dict(sorted(attack.outcomes.items())), "wrong": attack.wrong}


if __name__ == "__main__":
    report = json.dumps(main(*sys.argv[1:]))
    sys.stdout.write(report + "\n")
