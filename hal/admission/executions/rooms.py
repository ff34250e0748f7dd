"""Counts of the executions that run on a device."""

from typing import Protocol


class Rooms(Protocol):
    """Counts executions that run, wherever they were begun. Thread-safe."""

    @property
    def taken(self) -> int:
        """The number of them."""
        ...

    def take(self, most: int) -> bool:
        """Counts one more, unless there would be more than `most`; returns whether it did."""
        ...

    def give_back(self, count: int) -> None:
        """Gives the room of this many executions back."""
        ...


class OwnRooms:
    """Counts the executions of one queue, whose lock is held. Implements `Rooms`."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self, most: int) -> bool:
        """See `Rooms.take`."""
        if self.taken >= most:
            return False
        self.taken += 1
        return True

    def give_back(self, count: int) -> None:
        """See `Rooms.give_back`."""
        self.taken -= count
