"""Outlines of models: graphs and small constants, without weights.

An outline is what a sacrificial process needs to run a model that killed its driver, in a few
kilobytes that the driver's process keeps in its breadcrumbs.
"""

from typing import Final

import msgspec

from neurald.hal.model.model import Model

#: Constants in pools that are kept, each and together.
_MAX_CONSTANT_BYTES: Final = 1024
_MAX_CONSTANTS_BYTES: Final = 16 << 10


class ModelOutline(msgspec.Struct, frozen=True, array_like=True):
    """A model without its larger constants.

    Attributes:
        graphs: encoded as in messages of the wire protocol.
        pools: the sizes of its pools.
        constants: pool, offset and bytes of the constants that are kept.
    """

    graphs: bytes
    pools: tuple[int, ...]
    constants: tuple[tuple[int, int, bytes], ...] = ()


def outline_of(model: Model, graphs: bytes) -> bytes:
    """Returns the encoded outline of a valid model.

    Args:
        model: the model to describe.
        graphs: the same model, encoded as in messages of the wire protocol.
    """
    constants: list[tuple[int, int, bytes]] = []
    left = _MAX_CONSTANTS_BYTES
    for graph in (model.main, *model.referenced):
        for operand in graph.operands:
            place = operand.location
            if place is not None and 0 < place.length <= min(_MAX_CONSTANT_BYTES, left):
                content = bytes(model.pools[place.pool].view(place.offset, place.length))
                constants.append((place.pool, place.offset, content))
                left -= place.length
    pools = tuple(pool.size for pool in model.pools)
    return msgspec.msgpack.encode(ModelOutline(graphs=graphs, pools=pools, constants=tuple(constants)))
