"""Artifacts of the sample driver restore the model; other bytes are refused."""

import random

import numpy as np
import pytest
from support.models.addition import addition, request

from neurald.drivers.sample.artifact import read_artifact, write_artifact
from neurald.drivers.sample.device import create_all, create_quant
from neurald.hal.device import Artifact, ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory
from neurald.hal.validation.model_rules import validate_model

pytestmark = pytest.mark.quick

KEY = PrepareOptions(cache_key=bytes(32))
CONSTANT = np.arange(6, dtype=np.float32).reshape(2, 3)


def written() -> tuple[bytes, bytes]:
    artifact = write_artifact(addition(CONSTANT))
    return bytes(artifact.model[0].view()), bytes(artifact.data[0].view())


def artifact(model: bytes, data: bytes) -> Artifact:
    return Artifact(model=(HostMemory(model),), data=(HostMemory(data),))


def test_an_artifact_restores_the_model() -> None:
    device = create_all()
    kept = device.prepare_model(addition(CONSTANT), KEY).artifact()
    assert kept is not None
    assert (len(kept.model), len(kept.data)) == (1, 1)
    prepared = device.prepare_model_from_cache(kept, KEY)
    values, result = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    prepared.execute(request(values, result), ExecuteOptions())
    np.testing.assert_array_equal(result, CONSTANT + 1)
    assert bytes(prepared.artifact().model[0].view()) == bytes(kept.model[0].view())  # type: ignore[union-attr]


def test_there_is_no_artifact_without_a_cache_key() -> None:
    assert create_all().prepare_model(addition(CONSTANT), PrepareOptions()).artifact() is None


def test_an_unsupported_model_is_refused() -> None:
    with pytest.raises(BadData, match="sample-quant"):
        create_quant().prepare_model_from_cache(artifact(*written()), KEY)


def test_later_changes_of_the_files_have_no_effect() -> None:
    model, data = (bytearray(part) for part in written())
    read = read_artifact(Artifact(model=(HostMemory(model),), data=(HostMemory(data),)))
    data[:] = bytes(len(data))
    np.testing.assert_array_equal(read.constant(read.main.operands[1]), CONSTANT)


def test_invalid_files_are_refused() -> None:
    model, data = written()
    wrong = [
        (data, model),
        (b"", data),
        (model, b""),
        (model[:-1], data),
        (model + b"\0", data),
        (model, data[:-1]),
        (model, data + b"\0"),
        (model[:8] + b"\xff\xff\xff\xff" + model[12:], data),
        (model[:20] + b"\xff" * 8 + model[28:], data),
    ]
    for pair in wrong:
        with pytest.raises(BadData):
            read_artifact(artifact(*pair))
    for count in ((), (HostMemory(model), HostMemory(model))):
        with pytest.raises(BadData):
            read_artifact(Artifact(model=count, data=(HostMemory(data),)))


def test_damaged_files_give_a_valid_model_or_an_error() -> None:
    model, data = written()
    chance = random.Random(1)
    for _ in range(300):
        damaged = bytearray(model)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        try:
            model_read = read_artifact(artifact(bytes(damaged), data))
            create_all().prepare_model(model_read, KEY)
        except BadData:
            continue
        validate_model(model_read)
