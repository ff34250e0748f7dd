"""The memory and the requests that a client has sent over its ring, which executions name."""

import weakref
from typing import Final

from neurald.hal.admission.sessions.session import Session
from neurald.hal.buffers.staging import output_types
from neurald.hal.errors import BadData, Error, ResourceExhaustedTransient
from neurald.hal.memory.pool import Memory
from neurald.hal.rpc.server.received_request import ReceivedRequest
from neurald.hal.rpc.transport.packet import Packet
from neurald.hal.rpc.transport.ring_packet import MAX_SLOTS, MEMORY_HEAD, RELEASE_HEAD, read_request
from neurald.hal.validation.request_rules import validate_request


class RingRequests:
    """The memory and the requests that a client has sent over its ring.

    Args:
        session: the session of the client.

    Attributes:
        requests: the requests, which were validated, by number.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._slots: dict[int, Memory] = {}
        self.requests: Final[dict[int, ReceivedRequest]] = {}

    def add_memory(self, packet: Packet) -> None:
        """Takes over the memory of a packet, which has one descriptor.

        Raises:
            BadData: the packet has another size, or its slot cannot be assigned.
            Error: the session cannot have this memory.
        """
        (descriptor,) = packet.descriptors
        if len(packet.data) != MEMORY_HEAD.size:
            packet.close_descriptors()
            raise BadData(f"a MEMORY packet has {len(packet.data)} bytes; {MEMORY_HEAD.size} are expected")
        _, slot, size, constant = MEMORY_HEAD.unpack(packet.data)
        try:
            if not slot or slot in self._slots:
                raise BadData(f"slot {slot} cannot be assigned: it is 0, or in use")
            if len(self._slots) >= MAX_SLOTS:
                raise ResourceExhaustedTransient(
                    f"the ring has {MAX_SLOTS} slots, which is the most that it may have"
                )
        except Error:
            packet.close_descriptors()
            raise
        self._slots[slot] = self._session.memories.receive(descriptor, size, constant=constant)

    def release(self, data: bytes) -> list[int]:
        """Releases the memory of a slot, and the requests that need it.

        Args:
            data: the packet that names the slot.

        Returns:
            The numbers of the requests that are gone.

        Raises:
            BadData: the packet has another size.
        """
        if len(data) != RELEASE_HEAD.size:
            raise BadData(f"a RELEASE packet has {len(data)} bytes; {RELEASE_HEAD.size} are expected")
        _, slot = RELEASE_HEAD.unpack(data)
        self._slots.pop(slot, None)
        gone = [number for number, each in self.requests.items() if slot in each.slots]
        for number in gone:
            del self.requests[number]
        return gone

    def add_request(self, data: bytes) -> int:
        """Adds a request, or replaces the one of its number; returns the number.

        Args:
            data: the packet with the request.

        Raises:
            BadData: the request is not valid.
        """
        numbered = read_request(data, self._slot)
        registered = self._session.models.find(numbered.handle)
        validate_request(registered.model, numbered.request)
        self.requests[numbered.number] = ReceivedRequest(
            registered=weakref.ref(registered),
            types=output_types(registered.model),
            request=numbered.request,
            slots=numbered.slots,
        )
        return numbered.number

    def _slot(self, slot: int) -> Memory:
        memory = self._slots.get(slot)
        if memory is None:
            raise BadData(f"slot {slot} has no memory")
        return memory

    def remove_request(self, number: int) -> None:
        """Removes a request, if there is one of this number."""
        self.requests.pop(number, None)

    def clear(self) -> None:
        """Removes everything."""
        self._slots.clear()
        self.requests.clear()
