"""Attack with memory that is easily miscounted.

Intermediate values, repeated mappings, many sessions.
"""

import contextlib
import os
from pathlib import Path

from faults.attacks.attack import MIB, Attack
from support.daemon.raw_client import SERVICE, RawClient, closed, memfd, reply_of
from support.models.hostile import swelling

from neurald._proto import device_pb2

_LIMIT = ("--limit", "memory_bytes=64MiB")
_ELEMENTS = 1 << 29
_AT_ONCE = 2
_SPARSE_BYTES = 8 << 30
_CLIENTS = 16
_MEMORIES = 1000
_SESSIONS = 10
#: This many in one step are visible in an unlimited daemon.
_AT_LEAST = 5
_WRITTEN_BYTES = 60 * MIB
_PART_BYTES = 1 * MIB
#: Limit on the mappings of one client in a daemon, whatever the files contain.
_MOST_MAPPED_BYTES = 256 << 30


class SwellingModels(Attack):
    """Small models and requests with gigabytes of intermediate values."""

    name = "swelling models"
    options = _LIMIT
    most_bytes = 256 * MIB

    def start(self) -> None:
        self._client = RawClient.opened(self.target.address)

    def step(self) -> None:
        prepared = reply_of(self._client.begin_prepare(swelling(self.scaled(_ELEMENTS))))
        self.outcomes[f"prepare: {prepared.status}"] += 1
        if not prepared.is_ok:
            return
        handle = self._client.prepared(prepared)
        calls = [
            self._client.begin("Execute", self._client.execution(handle, (4,), (4, 4)))
            for _ in range(_AT_ONCE)
        ]
        for call in calls:
            self.outcomes[f"execute: {reply_of(call).status}"] += 1
        message = device_pb2.ReleasePreparedModelRequest(prepared_model=handle)
        self._client.call("ReleasePreparedModel", message)

    def stop(self) -> None:
        closed(self._client)


class RepeatedMappings(Attack):
    """Repeated imports of one sparse file, each of which takes address space, a mapping and a
    descriptor.
    """

    name = "repeated mappings"

    def start(self) -> None:
        self._clients: list[RawClient] = []
        self._sparse = memfd(_SPARSE_BYTES)
        self._before = self._mapped()

    def step(self) -> None:
        if len(self._clients) < self.scaled(_CLIENTS):
            with contextlib.suppress(ConnectionError):
                self._clients.append(RawClient.opened(self.target.address))
        client = self._clients[-1]
        for _ in range(self.scaled(_MEMORIES)):
            answer = client.give(_SPARSE_BYTES, 0, self._sparse)
            self.outcomes[f"result code {answer.code}"] += 1
            if answer.code:
                break
        mapped = self._mapped() - self._before
        self.expect(mapped < _MOST_MAPPED_BYTES, f"more than {_MOST_MAPPED_BYTES} bytes are mapped")

    def _mapped(self) -> int:
        pages = int(Path(f"/proc/{self.target.process}/statm").read_text().split()[0])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        closed(*self._clients)
        os.close(self._sparse)


class ManySessions(Attack):
    """Many sessions of one user, each of which uses its full limit."""

    name = "many sessions"
    options = _LIMIT
    most_bytes = 256 * MIB

    def start(self) -> None:
        self._clients: list[RawClient] = []

    def step(self) -> None:
        if len(self._clients) >= _SESSIONS:
            closed(*self._clients)
            self._clients.clear()
        for _ in range(_AT_LEAST):
            try:
                self._clients.append(RawClient.opened(self.target.address))
            except ConnectionError:
                self.outcomes["refused sessions"] += 1
            else:
                self._write(self._clients[-1])

    def _write(self, client: RawClient) -> None:
        write = client.channel.stream_unary(f"{SERVICE}WriteMemory")
        parts = [device_pb2.WriteMemoryRequest(size_bytes=_WRITTEN_BYTES)]
        parts += [device_pb2.WriteMemoryRequest(chunk=bytes(_PART_BYTES))] * (_WRITTEN_BYTES // _PART_BYTES)
        messages = (part.SerializeToString() for part in parts)
        reply = reply_of(write.future(messages, metadata=client.metadata, timeout=20))
        self.outcomes[f"written: {reply.status}"] += 1

    def stop(self) -> None:
        closed(*self._clients)
