"""Reads how the outputs of a detector are decoded, which MediaPipe's tools write into `.tflite` files.

TFLite's metadata is a flatbuffer in a buffer of the file. That of MediaPipe's detectors has another
one inside, with anchors and scales (`object_detector_metadata_schema.fbs`).
"""

from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.runtime.tflite.file.content import file_content
from neurald.runtime.tflite.file.flatbuffer import BOOL, UINT32, Flatbuffer, Table
from neurald.service.tensors.anchors import Anchors

_MODEL: Final = b"TFL3"
_METADATA: Final = ("TFLITE_METADATA", b"M001")
_DETECTOR: Final = ("DETECTOR_METADATA", b"V001")
#: Numbers of fields: of a model its buffers and metadata, of the metadata its subgraphs, of those
#: their other metadata.
_BUFFERS, _MODEL_METADATA, _SUBGRAPHS, _CUSTOM = 4, 6, 3, 9
_MAX_ANCHORS: Final = 1 << 17


class DetectorOptions(Struct, frozen=True, kw_only=True):
    """How boxes are computed from outputs and anchors.

    Attributes:
        anchors: one for each box.
        scales: what y, x, height and width in the outputs are divided by.
        is_exponential: whether heights and widths are logarithms.
        has_logits: whether scores go through a sigmoid.
    """

    anchors: Anchors
    scales: tuple[float, float, float, float]
    is_exponential: bool
    has_logits: bool


def detector_options(path: Path) -> DetectorOptions | None:
    """Returns the options in a file; None if it has none, or if they are damaged."""
    try:
        _, memory = file_content(path)
        detector = _detector(memory.view())
        return None if detector is None else _options(detector.root)
    except BadData:
        return None


def _detector(data: memoryview) -> Flatbuffer | None:
    root = Flatbuffer(data, _MODEL).root
    buffers = root.tables(_BUFFERS)
    for entry in root.tables(_MODEL_METADATA):
        number = entry.integer(1, UINT32)
        if entry.string(0) != _METADATA[0] or number >= len(buffers):
            continue
        span = buffers[number].span(0)
        if span is None:
            continue
        metadata = Flatbuffer(data[span[0] : sum(span)], _METADATA[1])
        for subgraph in metadata.root.tables(_SUBGRAPHS):
            for custom in subgraph.tables(_CUSTOM):
                span = custom.span(1)
                if custom.string(0) == _DETECTOR[0] and span is not None:
                    return Flatbuffer(metadata.data[span[0] : sum(span)], _DETECTOR[1])
    return None


def _options(root: Table) -> DetectorOptions | None:
    ssd, decoding = root.table(1), root.table(2)
    schema = None if ssd is None else ssd.table(0)
    if schema is None or decoding is None:
        return None
    anchors = schema.tables(0)
    if not 0 < len(anchors) <= _MAX_ANCHORS:
        return None
    boxes = np.array([[each.real(field) for field in (1, 0, 3, 2)] for each in anchors], np.float32)
    x, y, width, height = (decoding.real(field) for field in (6, 7, 8, 9))
    scales = y, x, height, width
    if not np.isfinite(boxes).all() or not all(scale > 0 and np.isfinite(scale) for scale in scales):
        return None
    return DetectorOptions(
        anchors=Anchors(name="the file's metadata", boxes=boxes),
        scales=scales,
        is_exponential=bool(decoding.integer(10, BOOL)),
        has_logits=bool(decoding.integer(11, BOOL)),
    )
