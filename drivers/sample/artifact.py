"""Artifacts: the form in which the runtime caches a prepared model.

The sample device compiles nothing, so its artifacts contain the model. An artifact has two
memories: the graph with the sizes of its pools, and the contents of the pools. Each begins with its
own magic number, so that they cannot be confused. Numbers are little-endian:

    model:  magic (8 bytes), number of pools (u32), bytes of the graph (u64),
            bytes of each pool (u64), the graph
    data:   magic (8 bytes), the pools one after another, each at the next multiple of 64

Any process with write access to the cache directory may have written these bytes, and may still
modify them. Therefore they are copied once, and the copy is checked.
"""

import struct
from collections.abc import Sequence

from neurald.hal.device import Artifact
from neurald.hal.errors import BadData
from neurald.hal.memory.alignment import align
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.extension import Extension
from neurald.hal.rpc.wire.model import decode_model, encode_model
from neurald.hal.types import Model
from neurald.hal.validation.model_rules import validate_model

_MODEL_MAGIC = b"nsample1"
_DATA_MAGIC = b"nsample2"
_HEADER = struct.Struct("<8sIQ")
_SIZE = struct.Struct("<Q")


def write_artifact(model: Model) -> Artifact:
    """Returns the artifact of a model."""
    graph = encode_model(model)
    parts = [_HEADER.pack(_MODEL_MAGIC, len(model.pools), len(graph))]
    parts += [_SIZE.pack(pool.size) for pool in model.pools]
    data = bytearray(_DATA_MAGIC)
    for pool in model.pools:
        data.extend(bytes(align(len(data)) - len(data)))
        data.extend(pool.view())
    return Artifact(
        model=(HostMemory(b"".join((*parts, graph))),),
        data=(HostMemory(bytes(data)),),
    )


def read_artifact(artifact: Artifact, extensions: Sequence[Extension] = ()) -> Model:
    """Returns the model of an artifact.

    Args:
        artifact: any artifact.
        extensions: the vendor extensions that the model may use.

    Raises:
        BadData: the artifact was not written by this driver, or is damaged.
    """
    if len(artifact.model) != 1 or len(artifact.data) != 1:
        raise BadData(
            f"the artifact has {len(artifact.model)} model files and {len(artifact.data)} data files; "
            "expected one of each"
        )
    head, data = bytes(artifact.model[0].view()), bytes(artifact.data[0].view())
    if len(head) < _HEADER.size or not data.startswith(_DATA_MAGIC):
        raise BadData("the cache files were not written by the sample driver")
    magic, pools, graph_bytes = _HEADER.unpack_from(head)
    start = _HEADER.size + pools * _SIZE.size
    if magic != _MODEL_MAGIC or len(head) != start + graph_bytes:
        raise BadData("the model file was not written by the sample driver, or is damaged")
    sizes = [_SIZE.unpack_from(head, _HEADER.size + position * _SIZE.size)[0] for position in range(pools)]
    model = decode_model(head[start:], _pools(data, sizes), extensions)
    validate_model(model)
    return model


def _pools(data: bytes, sizes: list[int]) -> list[Memory]:
    pools: list[Memory] = []
    end = len(_DATA_MAGIC)
    for size in sizes:
        start = align(end)
        end = start + size
        if end > len(data):
            raise BadData(
                f"a pool of {size} bytes at offset {start} exceeds the data file of {len(data)} bytes"
            )
        pools.append(HostMemory(memoryview(data)[start:end]))
    if end != len(data):
        raise BadData(f"the data file has {len(data)} bytes; expected {end}")
    return pools
