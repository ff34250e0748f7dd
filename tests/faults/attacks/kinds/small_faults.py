"""Attacks at the edges: no address space, failing starts, unread results, ending processes."""

import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults.attacks.attack import MIB, Attack
from faults.daemon_process import DaemonProcess, private_environment
from support.daemon.peer import CONSTANT
from support.daemon.raw_client import RawClient, closed
from support.models.addition import addition

from neurald.hal.errors import ResultCode

_ADDED = CONSTANT.nbytes
_START_KIB = (100_000, 140_000, 180_000, 220_000)
_END_S = 30.0
_UNREAD_S = 5.0


class ExhaustedAddressSpace(Attack):
    """Memory that a daemon cannot map for lack of address space, which no client has caused."""

    name = "exhausted address space"

    def start(self) -> None:
        self._daemon = DaemonProcess(self.target.folder / "own")
        status = Path(f"/proc/{self._daemon.process.pid}/statm").read_text()
        limit = int(status.split()[0]) * resource.getpagesize() + 64 * MIB
        resource.prlimit(self._daemon.process.pid, resource.RLIMIT_AS, (limit, limit))
        self._client = RawClient.opened(self._daemon.address)

    def step(self) -> None:
        answer = self._client.give_memory(512 * MIB)
        self.outcomes[ResultCode(answer.code).name] += 1
        self.expect(answer.code == ResultCode.OUT_OF_MEMORY, f"no address space is told as {answer}")
        self.expect(self._client.call("GetStatus").is_ok, "the daemon serves no more")
        time.sleep(0.05)

    def stop(self) -> None:
        closed(self._client)
        self._daemon.stop()


class FailedStarts(Attack):
    """Daemons that lack memory to start."""

    name = "failed starts"

    def start(self) -> None:
        self._limits = itertools.cycle(_START_KIB)

    def step(self) -> None:
        limit = next(self._limits)
        folder = self.target.folder / "starts"
        folder.mkdir(mode=0o700, exist_ok=True)
        command = [sys.executable, "-m", "neurald", "driver", "cpu"]
        process = subprocess.Popen(
            ["sh", "-c", f'ulimit -v {limit}; exec "$@"', "sh", *command],
            env=private_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        sockets = folder / "neurald"
        end = time.monotonic() + _END_S
        try:
            while process.poll() is None and time.monotonic() < end:
                if (sockets / "cpu.sock").exists():
                    process.terminate()  # the start suffices
                time.sleep(0.05)
            self.outcomes[f"{limit} KiB: {process.poll()}"] += 1
            self.expect(process.poll() is not None, "a daemon that cannot start does not end")
        finally:
            process.kill()
            process.wait()
        # A library that exits midway leaves the lock file, but unlocked.
        kind = "*" if process.returncode >= 0 else "*.sock"
        left = [path.name for path in sockets.glob(kind)] if sockets.exists() else []
        for path in sockets.glob("*.lock"):
            path.unlink()
        self.expect(not left, f"a daemon that did not start leaves {left}")

    def stop(self) -> None:
        pass


class UnreadResults(Attack):
    """Daemons that are stopped while a client does not read its result."""

    name = "unread results"

    def start(self) -> None:
        self._numbers = itertools.count()

    def step(self) -> None:
        daemon = DaemonProcess(self.target.folder / f"unread {next(self._numbers)}")
        client = RawClient.opened(daemon.address)
        try:
            message = client.execution(client.prepare(addition(CONSTANT)), (_ADDED,), ())
            message.request.outputs.add(pool=1, length=_ADDED)
            message.request.pools.add(results_bytes=_ADDED)
            reply = client.call("Execute", message)
            self.expect(reply.is_ok, f"an execution fails: {reply}")
        finally:
            took_s = daemon.stop()
            closed(client)
        self.outcomes["stopped"] += 1
        self.expect(took_s < _UNREAD_S, f"an unread result delays the end by {took_s:.0f} s")
        self.expect(daemon.process.returncode == 0, f"exit status {daemon.process.returncode}")

    def stop(self) -> None:
        pass


_ENDING = """
import sys, threading, time
import numpy as np
import neurald as nd
from support.models.small import add_model

device = nd.connect(sys.argv[1])
shape = (1 << 14,)
values = np.ones(shape, np.float32)

def compiled(model, devices):
    builder = nd.CompilationBuilder(model, devices)
    builder.set_caching(None)
    return builder.finish()

remote, local = (compiled(add_model(shape), [each]) for each in (device, nd.devices()[0]))

def run(compilation):
    while True:
        compilation.run(values, values)

def burst():
    execution = nd.Execution(remote, reusable=True)
    for index in range(2):
        execution.set_input(index, values)
    execution.set_output(0, np.empty(shape, np.float32))
    with remote.create_burst() as burst:
        while True:
            execution.compute(burst=burst)

def compile(devices):
    while True:
        compiled(add_model((int(time.time() * 1000) % 1000 + 8,)), devices)

for target, arguments in (
    (run, (remote,)), (run, (local,)), (run, (local,)), (burst, ()),
    (compile, ([device],)), (compile, ([nd.devices()[0]],)),
):
    threading.Thread(target=target, args=arguments, daemon=True).start()
print("begun", flush=True)
sys.stdin.readline()
"""


class EndingProcesses(Attack):
    """Clients whose interpreter exits while threads execute and compile."""

    name = "ending processes"

    def start(self) -> None:
        self._numbers = itertools.count()

    def step(self) -> None:
        pause_s = 0.1 + 0.05 * (next(self._numbers) % 10)
        with tempfile.TemporaryFile("w+") as messages:
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", _ENDING, self.target.address],
                env=private_environment(self.target.folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdout.readline()  # It prepares models first, which takes long on a busy machine.
                time.sleep(pause_s)
                process.stdin.close()
                status = process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self.expect(False, "a process does not end")
                return
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
            messages.seek(0)
            text = messages.read()
        self.outcomes[f"exit status {status}"] += 1
        self.expect(status == 0, f"exit status {status}: {text[-1500:]}")

    def stop(self) -> None:
        pass
