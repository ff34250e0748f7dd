"""Runs cases between guard pages.

Requests come on standard input, answers go to standard output.

It runs as a script, in a Python that finds its packages where the suite does. A driver that touches
a guard page ends this process, after the address has been reported to the suite. The suite then
starts another process.
"""

import ctypes
import json
import os
import resource
import signal
import sys

#: Option of prctl(2): the signal to receive when the parent process ends.
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answers requests until the input ends.

    The argument is a JSON object: the `path` on which packages are found, the `process` id of the
    parent, the `driver` of the device, and the descriptor `faults` for fault records.
    """
    about = json.loads(sys.argv[1])
    # Ctrl-C reaches every process of a terminal; the suite decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != about["process"]:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.set_inheritable(about["faults"], False)
    # Some drivers write to standard output.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = about["path"]
    from neurald.service.conformance.guard.execution import serve

    serve(about["driver"], about["faults"], sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
