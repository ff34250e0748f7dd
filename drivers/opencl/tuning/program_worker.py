"""Builds programs for another process, and measures their kernels: requests come on standard input, answers go to standard output.

It runs as a script, in a Python that finds its packages where the other process does. A context of its own keeps what a kernel or a
compiler breaks away from the other process.
"""

import ctypes
import json
import os
import signal
import struct
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from neurald.drivers.opencl.platform.discovery import DeviceContext

#: Of prctl(2): the signal that a process gets when the one that started it has ended.
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answers requests, each after its length in eight bytes, until there are no more.

    The argument is a JSON object: the `path` on which packages are found, the `process` that asks, and the device, as its `place`
    ("PLATFORM:DEVICE") and its `digest`.
    """
    about = json.loads(sys.argv[1])
    # Ctrl-C reaches every process of a terminal; the one that asks decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != about["process"]:
        return
    # Some runtimes write to standard output.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = about["path"]
    _serve(_opened(about["place"], about["digest"]), sys.stdin.buffer, answers)


def _opened(place: str, digest: str) -> "DeviceContext":
    """The device, if it is the one that is meant.

    Raises:
        UnavailableDevice: there is another, or none.
    """
    from neurald.drivers.opencl.platform.discovery import DeviceContext, choose, discover
    from neurald.hal.errors import UnavailableDevice

    facts = choose(discover(), place)
    if facts.digest != digest:
        raise UnavailableDevice(f"{facts.digest} is not {digest}")
    return DeviceContext(facts)


def _serve(device: "DeviceContext", requests: IO[bytes], answers: IO[bytes]) -> None:
    import msgspec

    from neurald.drivers.opencl.runtime.program import Program
    from neurald.drivers.opencl.tuning.program_messages import Answer, Build, Measure
    from neurald.drivers.opencl.tuning.trials import Bench
    from neurald.hal.errors import DeadObject, OpFailed

    decoder = msgspec.msgpack.Decoder(Build | Measure)
    bench = Bench(device)
    program: Program | None = None
    while length := requests.read(8):
        request = decoder.decode(requests.read(struct.unpack("<Q", length)[0]))
        is_lost = False
        if isinstance(request, Build):
            try:
                program = Program.from_source(device, request.text)
                answer = Answer(binary=program.binary if request.wants_binary else b"")
            except OpFailed as error:
                answer = Answer(error=str(error) or "it fails")
        else:
            assert program is not None  # noqa: S101 - a request to build comes first
            times: list[float | None] = []
            try:
                for time_ns in bench.times_ns(program, request.trials):
                    times.append(time_ns)
            except DeadObject:
                is_lost = True
            answer = Answer(times_ns=tuple(times))
        encoded = msgspec.msgpack.encode(answer)
        answers.write(struct.pack("<Q", len(encoded)) + encoded)
        answers.flush()
        if is_lost:
            return


if __name__ == "__main__":
    main()
