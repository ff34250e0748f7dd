"""Builds programs for another process and measures their kernels.

It reads requests from standard input, and writes answers to standard output. It runs as a script in
a Python that finds its packages on the other process's path. Its own context protects the other
process from faults of kernels and compilers.
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
    from neurald.drivers.opencl.tuning.trials import Bench

#: Option of prctl(2): the signal to receive when the parent process ends.
_PR_SET_PDEATHSIG = 1
#: NVIDIA's driver prepares this many channels for kernels and for copies when it opens a device,
#: one process after another. A worker has one queue.
_CHANNELS = {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "CUDA_DEVICE_MAX_COPY_CONNECTIONS": "1"}


def main() -> None:
    """Answers requests until the input ends; each is preceded by its length in eight bytes.

    The argument is a JSON object: the `path` on which packages are found, the `process` id of the
    parent, and the device, as its `place` ("PLATFORM:DEVICE") and its `digest`.
    """
    about = json.loads(sys.argv[1])
    # Ctrl-C reaches every process of a terminal; the parent decides how to react.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != about["process"]:
        return
    # Some runtimes write to standard output.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = about["path"]
    for name, value in _CHANNELS.items():
        os.putenv(name, value)
    _serve(_opened(about["place"], about["digest"]), sys.stdin.buffer, answers)


def _opened(place: str, digest: str) -> "DeviceContext":
    """Opens the device, if it is the intended one.

    Raises:
        UnavailableDevice: there is a different device at this place, or none.
    """
    from neurald.drivers.opencl.platform.discovery import DeviceContext, choose, discover
    from neurald.hal.errors import UnavailableDevice

    facts = choose(discover(), place)
    if facts.digest != digest:
        raise UnavailableDevice(f"the device at {place} is {facts.digest}; expected {digest}")
    return DeviceContext(facts)


def _serve(device: "DeviceContext", requests: IO[bytes], answers: IO[bytes]) -> None:
    import msgspec

    from neurald.drivers.opencl.runtime.program import BuiltProgram
    from neurald.drivers.opencl.tuning.program_messages import Answer, Build, Measure
    from neurald.hal.decoding import from_msgpack, msgpack_decoder
    from neurald.hal.errors import DeadObject, OpFailed

    decoder = msgpack_decoder(Build | Measure)
    bench: Bench | None = None
    program: BuiltProgram | None = None
    while length := requests.read(8):
        request = decoder.decode(requests.read(struct.unpack("<Q", length)[0]))
        is_lost = False
        if isinstance(request, Build):
            try:
                program = BuiltProgram.from_source(device, request.text)
                answer = Answer(binary=program.binary if request.wants_binary else b"")
            except OpFailed as error:
                answer = Answer(error=str(error) or "the build failed")
        else:
            assert program is not None  # noqa: S101 - a request to build comes first
            from neurald.drivers.opencl.tuning import trials

            bench = bench or trials.Bench(device)
            times: list[float | None] = []
            try:
                for time_ns in bench.times_ns(program, from_msgpack(request.trials, trials.Trials)):
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
