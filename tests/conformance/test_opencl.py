"""Android's conformance records and golden models on the OpenCL device.

The device must give correct results for everything that it claims to support.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.files.data import MODELS, NO_MODELS, NO_VECTORS, VECTORS, load_module, record_files_by_name
from support.opencl.batch import BatchingDevice
from support.operations.variants import VARIANTS
from support.tiers import one_in, spread

import neurald as nd
from neurald.drivers.opencl.device import create
from neurald.drivers.opencl.platform.discovery import choose, discover
from neurald.hal.errors import BadData, UnavailableDevice
from neurald.service.conformance.records import (
    Record,
    build,
    compile_for,
    failures,
    load_records,
)

SPECS = record_files_by_name()
BUNDLE = None if MODELS is None else load_module(MODELS / "golden_io.py").Bundle(str(MODELS))

needs_vectors = pytest.mark.skipif(VECTORS is None, reason=NO_VECTORS)
needs_large_models = pytest.mark.skipif(
    not os.environ.get("NEURALD_LARGE_MODELS"), reason="large models run where NEURALD_LARGE_MODELS is set"
)
needs_models = pytest.mark.skipif(MODELS is None, reason=NO_MODELS)

#: Operations with records that the device runs completely; support for them must not be lost.
_NAMES = """
    ABS ADD ARGMAX ARGMIN AVERAGE_POOL_2D AXIS_ALIGNED_BBOX_TRANSFORM BATCH_TO_SPACE_ND CAST CHANNEL_SHUFFLE CONCATENATION
    CONV_2D DENSIFY DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FLOOR
    FULLY_CONNECTED GATHER GREATER GREATER_EQUAL GROUPED_CONV_2D HASHTABLE_LOOKUP HEATMAP_MAX_KEYPOINT L2_NORMALIZATION
    L2_POOL_2D LESS LESS_EQUAL LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM
    MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NOT_EQUAL PACK PAD PAD_V2 POW PRELU QUANTIZE QUANTIZED_16BIT_LSTM RANK
    REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_SUM RELU RELU1 RELU6 RESHAPE RESIZE_BILINEAR
    RESIZE_NEAREST_NEIGHBOR REVERSE RNN ROI_ALIGN ROI_POOLING RSQRT SELECT SIN SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH
    SPLIT SQRT SQUEEZE STRIDED_SLICE SUB TANH TOPK_V2 TRANSPOSE TRANSPOSE_CONV_2D UNIDIRECTIONAL_SEQUENCE_RNN
"""
OPERATIONS = frozenset(_NAMES.split())
#: Minimum number of records that it runs completely.
RECORDS = 1859
#: Number of records of a specification that the tier `default` runs, evenly spread, since PoCL
#: compiles slowly.
MOST_RECORDS = 8
#: Number of records of each operation that also run in other ways.
SAMPLES = 2

#: Golden models whose kernels take a CPU's compiler up to a minute; run if NEURALD_LARGE_MODELS
#: is set.
LARGE_MODELS = frozenset(
    (
        "ssd_mobilenet_v3_coco_int8",
        "yolox_nano_416_fp16",
        "movenet_lightning_int8",
        "face_detection_full_range_sparse_fp16",
    )
)


@pytest.fixture(scope="session")
def device() -> BatchingDevice:
    try:
        return BatchingDevice(choose(discover()))
    except UnavailableDevice as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def behind_a_socket(device: BatchingDevice) -> Iterator[nd.Device]:
    with running_daemon(driver="opencl") as address:
        yield nd.connect(address)


def claims(device: nd.Device, record: Record) -> bool:
    """Returns True if the device runs a record completely."""
    if record.expect_failure or record.referenced:
        return False
    try:
        return all(verdict.ok for verdict in device.supported_operations(build(record, record.main)))
    except BadData:
        return False


@cache
def samples() -> dict[str, list[Record]]:
    """Returns some records of each operation."""
    found: dict[str, list[Record]] = {name: [] for name in sorted(OPERATIONS)}
    device = create()
    for path in SPECS.values():
        for record in load_records(path):
            some = found.get(record.op)
            if some is not None and len(some) < SAMPLES and not record.relaxed and claims(device, record):
                some.append(record)
    return found


@needs_vectors
def test_claimed_operations_are_still_supported(device: BatchingDevice) -> None:
    claimed = [record for path in SPECS.values() for record in load_records(path) if claims(device, record)]
    lost = OPERATIONS - {name for record in claimed for name in record.op_types}
    assert not lost
    assert len(claimed) >= RECORDS


@needs_vectors
@pytest.mark.parametrize("spec", one_in(9, SPECS))
def test_records(spec: str, device: BatchingDevice, record_property: Callable[[str, object], None]) -> None:
    records: Sequence[Record] = [record for record in load_records(SPECS[spec]) if claims(device, record)]
    if not records:
        pytest.skip("no record is claimed")
    records = spread(MOST_RECORDS, records)
    device.build(build(record, record.main) for record in records)
    assert not failures(records, compile_for(device))
    record_property("records on OpenCL", len(records))


@needs_vectors
@pytest.mark.parametrize("operation", one_in(6, sorted(OPERATIONS)))
def test_variants(
    operation: str, device: BatchingDevice, record_property: Callable[[str, object], None]
) -> None:
    derived = [derive(record) for record in samples()[operation] for derive in VARIANTS.values()]
    variants = [each for each in derived if each is not None and claims(device, each)]
    device.build(build(record, record.main) for record in variants)
    assert not failures(variants, compile_for(device))
    record_property("variants on OpenCL", len(variants))


@needs_vectors
@pytest.mark.parametrize("operation", one_in(6, sorted(OPERATIONS)))
@pytest.mark.sampled(3)
def test_records_behind_a_socket(
    operation: str, behind_a_socket: nd.Device, record_property: Callable[[str, object], None]
) -> None:
    records = samples()[operation]
    assert not failures(records, compile_for(behind_a_socket))
    record_property("records on OpenCL behind a socket", len(records))


CASES = (
    []
    if BUNDLE is None
    else [(name, case) for name in BUNDLE.names() for case in islice(BUNDLE.cases(name), 1)]
)


@needs_models
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(
            name,
            case,
            id=f"{name}-{case.name}",
            marks=[
                *([pytest.mark.slow, needs_large_models] if name in LARGE_MODELS else []),
                *([pytest.mark.full] if number % 9 else []),
            ],
        )
        for number, (name, case) in enumerate(CASES)
    ],
)
def test_golden_outputs(name: str, case: Any, device: BatchingDevice) -> None:
    assert BUNDLE is not None
    model = nd.load_tflite(BUNDLE.model_path(name), signature=case.signature)
    builder = nd.CompilationBuilder(model, [device, nd.devices()[0]])
    builder.set_caching(None)
    compilation = builder.finish()
    for step in case.steps:
        results = compilation.run(*step.inputs.values())
        for expected, result in zip(step.outputs, results, strict=True):
            is_close, why = expected.check(np.asarray(result))
            assert is_close, why
