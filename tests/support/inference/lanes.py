"""The caller's end of a lane of a worker in this process."""

import socket

from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import Answer, Arena, TensorAt, decode_answer, encode
from neurald.hal.lanes.repeats import RepeatedRuns
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.ring_end import WAKE
from neurald.service.inference.worker.lane_server import LaneServer
from neurald.service.inference.worker.loaded_model import LoadedModel


def is_cut(end: socket.socket) -> bool:
    """Returns whether the lane was closed; packets that wake may come before."""
    try:
        while packet := socket_end.receive(end)[0]:
            if packet[0] != WAKE:
                return False
    except ConnectionResetError:
        pass
    return True


class Repeater:
    """The other end of a lane with a ring."""

    def is_cut(self) -> bool:
        return is_cut(self.end)

    def __init__(self, model: LoadedModel, *, is_trusted: bool = False, arena_bytes: int = 4096) -> None:
        self.end, theirs = socket_end.pair()
        self.end.settimeout(60)
        self.server = LaneServer(theirs, model, is_trusted=is_trusted)
        self.server.start()
        self.runs = RepeatedRuns(self.end)
        self.replace_arena(arena_bytes)

    def replace_arena(self, size: int) -> None:
        self.arena = SharedMemory.create(size)
        self.runs.send_packet(encode(Arena(size=size)), self.arena.fd)
        self.runs.forget()

    def packet(self) -> Answer:
        packet, descriptor = b"\0", None
        while packet[:1] == bytes((WAKE,)):
            packet, descriptor = socket_end.receive(self.end)
        assert descriptor is None
        answer: Answer = decode_answer(packet)
        self.runs.note(answer)
        return answer

    def run(
        self,
        *inputs: TensorAt,
        results_at: int = 1024,
        results_end: int = 0,
        results: tuple[TensorAt, ...] = (),
    ) -> tuple[Answer, bool]:
        """Returns the answer of a run, and whether it came without a packet."""
        if not self.runs.begin(inputs, results_at, (0,), results_end, results):
            return self.packet(), False
        ring = self.runs.ring
        if not ring.spin():
            while not ring.sleep(60):
                # One that woke the caller for an earlier run, which has seen its entry by itself.
                packet, _ = socket_end.receive(self.end)
                assert packet[:1] == bytes((WAKE,))
                ring.note_wake(packet)
        answer = self.runs.completed()
        return (answer, True) if answer is not None else (self.packet(), False)
