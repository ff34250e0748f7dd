"""Files of artifacts are read as they were written, and only if nothing in them was changed."""

import random

import pytest

from neurald.drivers.compiler.support.artifact_content import artifact_of, content_of
from neurald.hal.device import Artifact
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory
from neurald.hal.records import replace

MAGIC = b"ntest001"
CONTENT = {"code": [1, 2, 3], "more": [4]}


def read(artifact: Artifact, magic: bytes = MAGIC) -> dict[str, list[int]]:
    return content_of(artifact, magic, dict[str, list[int]], "the driver of this test")


def with_model_file(content: bytes | bytearray) -> Artifact:
    return Artifact(model=(HostMemory(content),), data=(HostMemory(b"-"),))


def test_content_and_constants_are_those_that_were_written() -> None:
    artifact = artifact_of(MAGIC, CONTENT, bytearray(b"constants"))
    assert read(artifact) == CONTENT
    assert bytes(artifact.data[0].view()) == b"constants"
    assert read(artifact_of(MAGIC, CONTENT)) == CONTENT


def test_every_changed_bit_is_noticed() -> None:
    whole = bytes(artifact_of(MAGIC, CONTENT).model[0].view())
    rng = random.Random(1)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(BadData, match="damaged or not from the driver of this test"):
            read(with_model_file(damaged))


def test_every_missing_end_is_noticed() -> None:
    whole = bytes(artifact_of(MAGIC, CONTENT).model[0].view())
    for length in range(len(whole)):
        with pytest.raises(BadData, match="damaged or not from the driver of this test"):
            read(with_model_file(whole[:length]))


def test_files_of_another_kind_are_refused() -> None:
    with pytest.raises(BadData, match="damaged or not from the driver of this test"):
        read(artifact_of(MAGIC, CONTENT), b"ntest002")
    with pytest.raises(BadData, match="not from the driver of this test: Expected"):
        read(artifact_of(MAGIC, [1, 2]))


def test_other_numbers_of_files_are_refused() -> None:
    artifact = artifact_of(MAGIC, CONTENT)
    for wrong in (Artifact(), replace(artifact, data=()), replace(artifact, model=artifact.model * 2)):
        with pytest.raises(BadData, match="expected one model and one data cache file of the driver"):
            read(wrong)


def test_content_that_was_verified_has_its_digest_not_computed_again() -> None:
    whole = bytearray(artifact_of(MAGIC, CONTENT).model[0].view())
    whole[len(MAGIC)] ^= 1
    assert read(replace(with_model_file(whole), is_verified=True)) == CONTENT
