"""Script of the process that runs cases between guard pages.

It reads requests from standard input and writes answers to standard output. If a driver accesses a
guard page, the fault handler reports the address to the suite and ends the process.
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

    The argument of the script is a JSON object with the import path `path`, the id of the parent
    process `process`, the driver `driver`, and the descriptor `faults` for records of faults.
    """
    about = json.loads(sys.argv[1])
    # Ctrl-C signals all processes of a terminal; the suite decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != about["process"]:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.set_inheritable(about["faults"], False)
    # Drivers may write to standard output, which becomes standard error for them.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = about["path"]
    from neurald.service.conformance.guard.execution import serve

    serve(about["driver"], about["faults"], sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
