"""Whole models whose kernels read images: results equal those of buffers exactly; caching, and
limits.
"""

import logging
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from support.models.joined import joined_model
from support.models.small_network import FLOAT16, FLOAT32, SIGNED, UNSIGNED, small_network
from support.opencl.batch import BatchingDevice
from support.opencl.models import FLOAT, Models, expect_close, random_inputs, random_model, run
from support.tiers import one_in

import neurald as nd
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.artifact import read_artifact, write_artifact
from neurald.drivers.opencl.device import OpenClDevice, create
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.reduction_order import ReductionOrder
from neurald.drivers.opencl.platform.storage import STORAGE_VARIABLE, Storage
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.runtime.executable import ImageUse
from neurald.drivers.opencl.runtime.persistent_kernel import is_supported
from neurald.drivers.opencl.tuning.tuning import TUNING_VARIABLE, Tuner, Tuning
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.errors import BadData, OpFailed, UnavailableDevice
from neurald.hal.model.model import Model
from neurald.hal.records import replace

_Op = nd.OperationType
OPTIONS = PrepareOptions(cache_key=b"k" * 32)
#: Whole texels, and rows that end between them.
NETWORKS = {
    "FLOAT32": small_network(FLOAT32, 7, 3, 8),
    "FLOAT16": small_network(FLOAT16, 5, 4, 12),
    "UNSIGNED": small_network(UNSIGNED, 5, 4, 12),
    "SIGNED": small_network(SIGNED, 6, 5, 7),
}
MODELS: dict[str, Model] = {
    **NETWORKS,
    **{f"random {seed}": random_model(seed) for seed in (3, 4)},
    **{f"joined {seed}": joined_model(seed, FLOAT) for seed in (0, 5, 7)},
}


def facts_of(opencl: DeviceContext) -> DeviceFacts:
    """Returns the device as one whose kernels read images."""
    if not opencl.facts.max_image_texels:
        pytest.skip(f"{opencl.facts.name} has no images of buffers")
    return replace(opencl.facts, storage=Storage.IMAGE, reduction_order=ReductionOrder.ORDERED)


@pytest.fixture(scope="module", autouse=True)
def _not_measured() -> Iterator[None]:
    """Disables measurements: the fastest candidate differs between runs, and with it the rounding
    of results.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TUNING_VARIABLE, Tuning.FAST.value)
        yield


def changed(device: OpenClDevice, **changes: object) -> None:
    """Changes the images that a device supports."""
    facts = device.context.facts
    assert facts.images is not None
    device.context.facts = replace(facts, images=replace(facts.images, **changes))


@pytest.fixture(scope="module")
def batch(opencl: DeviceContext) -> BatchingDevice:
    found = BatchingDevice(facts_of(opencl))
    found.build(MODELS.values())
    return found


@pytest.fixture(scope="module")
def with_buffers(opencl: DeviceContext) -> BatchingDevice:
    """Returns the device with the same kernels, but without images."""
    found = BatchingDevice(facts_of(opencl))
    changed(found, types=frozenset())
    found.build(MODELS.values())
    return found


@pytest.fixture
def device(opencl: DeviceContext) -> OpenClDevice:
    return OpenClDevice(facts_of(opencl))


def prepared(device: OpenClDevice, model: Model) -> OpenClPreparedModel:
    found = device.prepare_model(model, OPTIONS)
    assert isinstance(found, OpenClPreparedModel)
    return found


def image_count(model: OpenClPreparedModel) -> int:
    return sum(len(call.images) for call in model.executable.calls)


@pytest.mark.parametrize("name", one_in(2, MODELS))
def test_models_compute_the_same_bits(name: str, batch: BatchingDevice, with_buffers: BatchingDevice) -> None:
    model = MODELS[name]
    inputs = random_inputs(model)
    first, second = prepared(batch, model), prepared(with_buffers, model)
    assert image_count(first) > 0
    assert image_count(second) == 0
    results = [run(each, model, inputs) for each in (first, second)]
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
    tolerance = 5e-3 if name == "FLOAT16" else 1e-4
    expect_close(results[0], run(ReferenceDevice().prepare_model(model, OPTIONS), model, inputs), tolerance)


def test_weights_and_intermediate_values_are_images(batch: BatchingDevice) -> None:
    calls = prepared(batch, NETWORKS["UNSIGNED"]).executable.calls
    assert all(any(use.argument == 2 for use in call.images) for call in calls), "weights of each layer"
    assert sum(any(use.argument == 1 for use in call.images) for call in calls) >= 3
    # Of what follows sums, too; and of words where there are dot products.
    types = {use.type for call in calls for use in call.images}
    assert {Scalar.UINT8, Scalar.INT32} <= types <= {Scalar.UINT8, Scalar.INT32, Scalar.UINT32}


def test_profiles_name_images(device: OpenClDevice) -> None:
    changed(device, types=frozenset((Scalar.FLOAT32, Scalar.UINT8)))
    model = NETWORKS["UNSIGNED"]
    labels = [each.label for each in prepared(device, model).profile() if not each.is_copy]
    # Some devices have kernels whose weights are of INT8.
    assert all(
        "a2 from a buffer (" in label or "a2" in label.partition(" through images")[0] for label in labels
    )
    assert any(" through images" in label for label in labels)
    assert any("from a buffer (images of INT32 are not supported)" in label for label in labels)


def test_the_storage_is_part_of_the_version(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for storage in Storage:
        monkeypatch.setenv(STORAGE_VARIABLE, storage.value)
        found.append(create())
        assert found[-1].facts.storage is storage
    assert len({each.version for each in found}) == 2
    assert found[1].version.startswith(found[0].version)


def test_an_unknown_storage_is_refused(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORAGE_VARIABLE, "paper")
    with pytest.raises(UnavailableDevice, match=STORAGE_VARIABLE):
        create()


def test_no_persistent_kernel(device: OpenClDevice) -> None:
    nvidia = replace(device.context.facts, is_nvidia=True, compute_capability=(9, 0))
    assert not is_supported(nvidia)
    assert is_supported(replace(nvidia, images=None))


def test_a_device_without_images_reads_buffers(opencl: DeviceContext) -> None:
    device = OpenClDevice(replace(facts_of(opencl), has_images=False))
    model = joined_model(0, FLOAT)
    inputs = random_inputs(model)
    found = prepared(device, model)
    assert image_count(found) == 0
    expect_close(
        run(found, model, inputs), run(ReferenceDevice().prepare_model(model, OPTIONS), model, inputs), 1e-4
    )


def test_buffers_that_are_too_large_for_images_are_read_as_buffers(
    device: OpenClDevice, caplog: pytest.LogCaptureFixture
) -> None:
    """This applies if images cannot be parts of buffers; every single value is within the limit."""
    model = joined_model(0, FLOAT)
    changed(device, supports_sub_buffers=False, max_texels=100)
    with caplog.at_level(logging.INFO):
        found = prepared(device, model)
    assert image_count(found) == 0
    assert "read buffers instead of images" in caplog.text
    assert "exceeds the limit of 100" in caplog.text
    inputs = random_inputs(model)
    expect_close(
        run(found, model, inputs), run(ReferenceDevice().prepare_model(model, OPTIONS), model, inputs), 1e-4
    )


@pytest.fixture(scope="module")
def artifact(opencl: DeviceContext) -> Artifact:
    found = prepared(OpenClDevice(facts_of(opencl)), MODELS["joined 0"]).artifact()
    assert found is not None
    return found


def test_a_model_from_a_cache_reads_the_same_images(device: OpenClDevice, artifact: Artifact) -> None:
    model = MODELS["joined 0"]
    again = device.prepare_model_from_cache(artifact, OPTIONS)
    first = prepared(device, model)
    assert [call.images for call in again.executable.calls] == [
        call.images for call in first.executable.calls
    ]
    assert image_count(again) > 0
    inputs = random_inputs(model)
    for found, expected in zip(run(again, model, inputs), run(first, model, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_artifacts_depend_on_the_storage(artifact: Artifact, opencl: DeviceContext) -> None:
    device = OpenClDevice(replace(opencl.facts, storage=Storage.BUFFER))
    with pytest.raises(OpFailed, match="damaged or was built for another device"):
        device.prepare_model_from_cache(artifact, OPTIONS)


def test_images_that_leave_their_buffers_are_refused(artifact: Artifact) -> None:
    executable, binary, constants, _ = read_artifact(artifact)
    number, call = next((n, call) for n, call in enumerate(executable.calls) if call.images)
    use = call.images[0]
    wrong: list[ImageUse] = [
        msgspec.structs.replace(use, argument=0),
        msgspec.structs.replace(use, argument=len(call.locations)),
        msgspec.structs.replace(use, type=Scalar.FLOAT64),
        msgspec.structs.replace(use, size_bytes=0),
        msgspec.structs.replace(use, size_bytes=1 << 40),
    ]
    for each in wrong:
        calls = list(executable.calls)
        calls[number] = msgspec.structs.replace(call, images=(each,))
        with pytest.raises(BadData, match="image"):
            read_artifact(
                write_artifact(msgspec.structs.replace(executable, calls=tuple(calls)), binary, constants)
            )
    places = list(call.locations)
    place = places[use.argument]
    places[use.argument] = msgspec.structs.replace(place, offset=place.offset + 4)
    calls[number] = msgspec.structs.replace(call, locations=tuple(places))
    with pytest.raises(BadData, match="image"):
        read_artifact(
            write_artifact(msgspec.structs.replace(executable, calls=tuple(calls)), binary, constants)
        )


def test_candidates_that_read_images_are_measured(device: OpenClDevice) -> None:
    models = Models()
    total = models.add(
        _Op.ADD, [models.input(shape=(8, 12)), models.input(shape=(8, 12)), models.number(0)], shape=(8, 12)
    )
    (kernel,) = fuse(build_graph(models.finish(total))).kernels
    sources = candidates(kernel, device.context.facts, relaxed=False)
    assert [bool(source.images) for source in sources] == [True, False]
    (chosen,) = Tuner(device.context, Tuning.EXHAUSTIVE).choose([sources])
    assert chosen in sources
