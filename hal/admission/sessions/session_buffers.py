"""The device buffers of one client in a daemon, by the tokens that its requests name them with."""

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.admission.sessions.handle_table import HandleTable
from neurald.hal.buffers.tracked_buffer import Role, TrackedBuffer, described_operand
from neurald.hal.device import BufferDescription, BufferRole, Device, PreparedModel
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import Dimensions, value_size
from neurald.hal.wording import counted

#: How long a use of a buffer waits for the end of an execution that a client has cancelled, and
#: whose end it did not wait for.
_STOPPING_S: Final = 1.0


class RequestedRole(Struct, frozen=True, kw_only=True):
    """A role that a client requests for a buffer: an input or output of a prepared model."""

    model: Model
    prepared_model: PreparedModel
    index: int
    is_output: bool
    probability: float

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"

    @property
    def operand(self) -> Operand:
        """The operand of the model at that input or output.

        Raises:
            BadData: there is no such input or output.
        """
        graph = self.model.main
        indexes = graph.outputs if self.is_output else graph.inputs
        if not 0 <= self.index < len(indexes):
            raise BadData(
                f"role {self}: the model has {len(indexes)} {'outputs' if self.is_output else 'inputs'}"
            )
        return graph.operands[indexes[self.index]]


class SessionBuffers:
    """Allocates device buffers and finds them again. Thread-safe."""

    def __init__(self) -> None:
        tokens = itertools.count(1)
        self._buffers: HandleTable[int, TrackedBuffer] = HandleTable("buffer", lambda: next(tokens))

    def allocate(
        self,
        device: Device,
        dimensions: Dimensions,
        roles: Sequence[RequestedRole],
        hold: Callable[[int, Callable[[], Memory]], Memory],
    ) -> int:
        """Makes the device allocate a buffer for all of these roles; returns its token, at least 1.

        Args:
            device: the device that prepared the models.
            dimensions: the dimensions that the client gives.
            roles: all of one type and quantisation.
            hold: makes a memory that counts towards the client's limits, given its size and how to
                make it.

        Raises:
            BadData: there is no role, or one twice; a role does not exist, or differs from the
                others in type, quantisation or dimensions; a probability is not in (0, 1].
            ResourceExhaustedPersistent, ResourceExhaustedTransient: it is more than the client may
                have.
            Error: the device offers no such memory.
        """
        if not roles:
            raise BadData(
                "a buffer has no role; at least one input or output of a prepared model is expected"
            )
        used_as = frozenset(
            Role(owner=role.prepared_model, index=role.index, is_output=role.is_output) for role in roles
        )
        if len(used_as) != len(roles):
            raise BadData(
                f"a buffer has {counted(len(roles), 'role')}, with only {len(used_as)} of them distinct; each may be listed once"
            )
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
                raise OpFailed(f"{device.name} returned {type(memory).__name__} where a Memory is expected")
            return memory

        memory = hold(value_size(operand.type, operand.dimensions) or 0, make)
        return self._buffers.add(lambda: TrackedBuffer(memory, operand, used_as, patience_s=_STOPPING_S))

    def find(self, token: int) -> TrackedBuffer:
        """Returns the buffer of a token.

        Raises:
            BadData: the session has no such buffer.
            DeadObject: the session is over.
        """
        return self._buffers.find(token)

    def release(self, token: int) -> None:
        """Releases a buffer; executions under way finish.

        Raises:
            BadData: the session has no such buffer.
            DeadObject: the session is over.
        """
        self._buffers.take(token)

    def close(self) -> None:
        """Releases all buffers; no more can be allocated."""
        self._buffers.close()
