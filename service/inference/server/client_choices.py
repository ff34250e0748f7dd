"""Choices of clients for the whole service, which outlive a front end that dies.

A front end reports them to its supervisor before it answers the client, and the next one is started
with them. A restart of the service manager begins anew.
"""

import msgspec

#: The value of a setting of the log.
LogValue = bool | int | str


class RegionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A region of shared memory that a client has registered.

    Attributes:
        key: the name of the object of shared memory.
        offset, size: the part of it that is registered.
        file: the number of its file: there may be another one of that name by now.
    """

    key: str
    offset: int
    size: int
    file: int


class ClientChoices(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of clients for the whole service.

    Attributes:
        models: whether clients want a model, for each that they have loaded or unloaded.
        log: settings of the log that differ from those at the start.
        traces: changed settings of traces by model; those of the service have the name "".
        regions: registered regions of shared memory by name.
    """

    models: dict[str, bool] = {}
    log: dict[str, LogValue] = {}
    traces: dict[str, dict[str, tuple[str, ...]]] = {}
    regions: dict[str, RegionChoice] = {}
