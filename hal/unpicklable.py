"""Objects that are neither copied nor pickled, because they own something that exists only once."""

from typing import ClassVar, NoReturn, SupportsIndex


class Unpicklable:
    """Base of objects that own descriptors, threads or code of this process.

    A copy by the module `copy` would own the same descriptor, which both would close. Copies and
    pickles are refused, with what to do instead.
    """

    __slots__ = ()

    #: The remedy, as a sentence without a full stop.
    instead_of_pickling: ClassVar[str]

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"an object of {type(self).__name__} can be neither copied nor pickled, since it belongs to this "
            f"process. {self.instead_of_pickling}"
        )
