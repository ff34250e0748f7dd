"""The device buffers of one client in a daemon, by the tokens that requests name them with."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neurald.hal.buffers.tracked_buffer import ManagedBuffer, Role, described_operand
from neurald.hal.device import BufferDescription, BufferRole, Device, PreparedModel
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Dimensions, Model, Operand, value_size
from neurald.hal.process.fork import forkable_lock


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRole:
    """A role as a client asks for it: of a model that the device has prepared for it."""

    model: Model
    prepared_model: PreparedModel
    index: int
    is_output: bool
    probability: float

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"

    @property
    def operand(self) -> Operand:
        """What the model has there.

        Raises:
            BadData: there is no such input or output.
        """
        graph = self.model.main
        indexes = graph.outputs if self.is_output else graph.inputs
        if not 0 <= self.index < len(indexes):
            raise BadData(f"role {self}: the model has {len(indexes)}")
        return graph.operands[indexes[self.index]]


class BufferTracker:
    """Allocates device buffers and finds them again. Thread-safe."""

    def __init__(self) -> None:
        self._buffers: dict[int, ManagedBuffer] = {}
        self._tokens = itertools.count(1)
        self._lock = forkable_lock()

    def allocate(
        self,
        device: Device,
        dimensions: Dimensions,
        roles: Sequence[RequestedRole],
        hold: Callable[[int, Callable[[], Memory]], Memory],
    ) -> int:
        """A buffer of the device for all of these roles; returns its token, which is greater than 0.

        Args:
            device: that prepared the models.
            dimensions: what the client says of them.
            roles: all of one type and quantisation.
            hold: makes a memory that counts towards the client's limits, given its size and how to make it.

        Raises:
            BadData: there is no role, or one twice; a role does not exist, or differs from the others in type,
                quantisation or dimensions; a probability is not in (0, 1].
            ResourceExhaustedPersistent, ResourceExhaustedTransient: it is too much.
            Error: the device offers no such memory.
        """
        if not roles:
            raise BadData("a buffer needs at least one role")
        kept = frozenset(
            Role(owner=role.prepared_model, index=role.index, is_output=role.is_output) for role in roles
        )
        if len(kept) != len(roles):
            raise BadData("a role is listed twice for one buffer")
        for role in roles:
            if not 0 < role.probability <= 1:
                raise BadData(
                    f"role {role}: probability {role.probability}; it must be above 0 and at most 1"
                )
        operand = described_operand([(f"role {role}", role.operand) for role in roles], dimensions)
        inputs, outputs = (
            tuple(
                BufferRole(prepared_model=r.prepared_model, index=r.index, probability=r.probability)
                for r in roles
                if r.is_output is is_output
            )
            for is_output in (False, True)
        )
        description = BufferDescription(
            dimensions=operand.dimensions, input_roles=inputs, output_roles=outputs
        )

        def make() -> Memory:
            memory = device.allocate(description)
            if not isinstance(memory, Memory):
                raise OpFailed(f"{device.name} gave {type(memory).__name__} in place of memory")
            return memory

        memory = hold(value_size(operand.type, operand.dimensions) or 0, make)
        with self._lock:
            token = next(self._tokens)
            self._buffers[token] = ManagedBuffer(memory, operand, kept)
        return token

    def find(self, token: int) -> ManagedBuffer:
        """The buffer of a token.

        Raises:
            BadData: there is none in this session.
        """
        buffer = self._buffers.get(token)
        if buffer is None:
            raise BadData(f"buffer {token} is not known in this session")
        return buffer

    def release(self, token: int) -> None:
        """Lets go of a buffer; executions under way finish.

        Raises:
            BadData: there is none in this session.
        """
        with self._lock:
            if self._buffers.pop(token, None) is None:
                raise BadData(f"buffer {token} is not known in this session")

    def clear(self) -> None:
        """Lets go of all buffers."""
        with self._lock:
            buffers, self._buffers = self._buffers, {}
        buffers.clear()
