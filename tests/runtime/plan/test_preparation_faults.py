"""Problems with the cache or with artifacts: the device compiles, and the result is right."""

import errno
import logging
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.devices.caching import (
    CachingDevice,
    CachingPreparedModel,
)
from support.devices.preparation import entries, flip, prepare
from support.models.addition import addition

from neurald.hal.cache.secret import SECRET_VARIABLE
from neurald.hal.cache.store import MAX_BYTES_VARIABLE
from neurald.hal.device import PreparedModel, PrepareOptions
from neurald.hal.errors import (
    BadData,
    DeadObject,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    Unreachable,
)
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.runtime.plan import compiling
from neurald.runtime.plan.prepared_step import CacheOutcome
from neurald.runtime.plan.preparer import Caching


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_warned", set())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def damages() -> dict[str, Callable[[Path], None]]:
    return {
        "flipped": lambda entry: flip(entry / "head"),
        "cut": lambda entry: os.truncate(entry / "head", 3),
        "lost": lambda entry: (entry / "head").unlink(),
        "empty": lambda entry: [path.unlink() for path in entry.iterdir()] and None,
    }


@pytest.mark.parametrize("damage", damages())
def test_damage_means_compiling_and_storing_again(directory: Path, damage: str) -> None:
    prepare(directory)
    damages()[damage](entries(directory)[0])
    device = CachingDevice()
    report = prepare(directory, device)
    assert report.cache is CacheOutcome.MISS
    assert report.reason.startswith("the entry ")
    assert report.is_stored
    assert [len(device.compiled), len(device.offered)] == [1, 0]  # never passed to the device
    assert prepare(directory).cache is CacheOutcome.HIT


def test_another_models_entry_is_never_used(directory: Path) -> None:
    prepare(directory, value=1)
    (first,) = entries(directory)
    prepare(directory, value=2)
    (second,) = set(entries(directory)) - {first}
    spare = directory / "spare"
    first.rename(spare)
    second.rename(first)
    spare.rename(second)
    for value in (1, 2):
        report = prepare(directory, value=value)
        assert report.reason == "the entry cannot be used: it is the entry of another key"


@pytest.mark.parametrize(
    "error",
    [BadData("not mine"), OpFailed("no"), DeadObject("gone"), ValueError("what is this"), MemoryError()],
)
def test_a_device_that_refuses_compiles(directory: Path, error: Exception) -> None:
    prepare(directory)
    device = CachingDevice()

    def refuse() -> None:
        raise error

    device.on_load = refuse
    report = prepare(directory, device)
    assert report.cache is CacheOutcome.MISS
    assert "cannot load its cached artifact" in report.reason
    assert [len(device.compiled), len(device.offered)] == [1, 1]
    assert prepare(directory).cache is CacheOutcome.HIT


@pytest.mark.parametrize(
    "error",
    [
        MissedDeadlineTransient("late"),
        MissedDeadlinePersistent("late"),
        ResourceExhaustedTransient("full"),
        ResourceExhaustedPersistent("too large"),
        Unreachable("silent"),
    ],
)
def test_an_error_that_is_not_the_artifacts_is_the_callers(directory: Path, error: Exception) -> None:
    prepare(directory)
    device = CachingDevice()

    def refuse() -> None:
        raise error

    device.on_load = refuse
    with pytest.raises(type(error)):
        prepare(directory, device)
    assert device.compiled == []
    assert prepare(directory).cache is CacheOutcome.HIT


def test_an_artifact_that_kills_its_driver(directory: Path) -> None:
    """The artifact is offered only once, and the error reports the death of the driver."""

    class Remote(CachingDevice):
        is_remote = True

    prepare(directory, Remote())
    device = Remote()

    def die() -> None:
        raise DeadObject("it died")

    device.on_load = die
    with pytest.raises(DeadObject, match="it died"):
        prepare(directory, device)
    assert device.compiled == []
    assert prepare(directory, Remote()).cache is CacheOutcome.MISS


def test_a_device_that_is_updated_during_preparation(directory: Path) -> None:
    """Its result is not stored under the key of the previous version."""

    class Updated(CachingDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
            self.version = "another"
            return super().prepare_model(model, options)

    report = prepare(directory, Updated())
    assert "the device was updated in the meantime, from version" in report.reason
    assert not report.is_stored
    assert prepare(directory).cache is CacheOutcome.MISS


def test_an_error_of_compiling_is_the_callers(directory: Path) -> None:
    class Failing(CachingDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
            raise OpFailed("it does not compile")

    with pytest.raises(OpFailed, match="it does not compile"):
        prepare(directory, Failing())
    assert prepare(directory).is_stored  # and the lock is free


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda artifact: None, "the device returned no artifact"),
        (
            lambda artifact: replace(artifact, data=()),
            "returned 1 model and 0 data files; it announced 1 and 1",
        ),
        (
            lambda artifact: replace(artifact, model=artifact.model * 2),
            "returned 2 model and 1 data files; it announced 1 and 1",
        ),
    ],
)
def test_an_invalid_artifact_is_not_stored(directory: Path, give: Callable[..., None], words: str) -> None:
    device = CachingDevice()
    device.on_artifact = give
    report = prepare(directory, device)
    assert report.cache is CacheOutcome.MISS
    assert words in report.reason
    assert not report.is_stored
    assert entries(directory) == []


def test_a_device_that_fails_to_give_its_artifact(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(prepared: CachingPreparedModel) -> None:
        raise RuntimeError("no artifact today")

    monkeypatch.setattr(CachingPreparedModel, "artifact", fail)
    report = prepare(directory)
    assert report.reason == "first use; not stored: no artifact today"


def test_a_full_disk_is_reported_once(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def write(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("neurald.hal.cache.file.os.write", write)
        for _ in range(3):
            report = prepare(directory)
            assert report.cache is CacheOutcome.MISS
            assert "No space left on device" in report.reason
            assert not report.is_stored
    assert len(warnings(caplog)) == 1
    assert "No space left on device" in warnings(caplog)[0]
    assert prepare(directory).is_stored


@pytest.mark.parametrize("place", ["/proc/neurald", "/dev/null/cache"])
def test_a_directory_that_cannot_be_made(place: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        report = prepare(Path(place))
        assert not report.is_stored
        assert report.reason
    assert len(warnings(caplog)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_still_gives(directory: Path) -> None:
    prepare(directory)
    directory.chmod(0o500)
    try:
        assert prepare(directory).cache is CacheOutcome.HIT
        report = prepare(directory, value=5)
        assert report.cache is CacheOutcome.MISS
        assert "Permission denied" in report.reason
    finally:
        directory.chmod(0o700)


def test_a_file_system_that_cannot_be_written_still_gives(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    real_open = os.open

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def open_to_read(path: str, flags: int, *rest: int, **options: int) -> int:
        if flags & writes:
            refuse()
        return real_open(path, flags, *rest, **options)

    prepare(directory)
    monkeypatch.setattr(os, "mkdir", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(os, "open", open_to_read)
    assert prepare(directory).cache is CacheOutcome.HIT
    for _ in range(2):
        report = prepare(directory, value=5)
        assert report.cache is CacheOutcome.MISS
        assert "Read-only file system" in report.reason
    assert len(warnings(caplog)) == 1


def test_a_directory_of_others_is_not_used(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    for _ in range(3):
        report = prepare(directory)
        assert report.cache is CacheOutcome.OFF
        assert "can be written by other users" in report.reason
    assert len(warnings(caplog)) == 1
    assert entries(directory) == []


def test_no_secret(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "/dev/null/secret")
    report = prepare(directory)
    assert report.cache is CacheOutcome.OFF
    assert "the installation's secret" in report.reason
    assert len(warnings(caplog)) == 1


def test_no_home(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("neurald.hal.cache.store.cache_directory", lambda: Path("~") / "neurald")
    assert Caching.by_default() is None
    assert Caching.by_default() is None
    assert len(warnings(caplog)) == 1


def test_an_artifact_larger_than_the_cache(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_BYTES_VARIABLE, "10")
    report = prepare(directory)
    assert not report.is_stored
    assert MAX_BYTES_VARIABLE in report.reason


def test_constants_that_change_during_preparation_do_not_poison_the_cache(directory: Path) -> None:
    """The content that was hashed is compiled, whatever the application does with its memory."""
    values = np.full(4, 3, np.float32)
    model = addition(values, pool=HostMemory(values))

    class Changing(CachingDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
            values[:] = 99
            return super().prepare_model(model, options)

    prepare(directory, Changing(), model)
    device = CachingDevice()
    assert prepare(directory, device, value=3).cache is CacheOutcome.HIT


@pytest.mark.slow
def test_rewritten_during_100_saves_and_loads(directory: Path) -> None:
    """Another thread repeatedly replaces the files of an entry with those of another model."""
    prepare(directory, value=1)
    (entry,) = entries(directory)
    prepare(directory, value=2)
    (other,) = set(entries(directory)) - {entry}
    foreign = {path.name: path.read_bytes() for path in other.iterdir()}
    is_over = threading.Event()

    def rewrite() -> None:
        while not is_over.is_set():
            for name in random.sample(sorted(foreign), len(foreign)):
                try:
                    with (entry / name).open("r+b") as file:
                        file.write(foreign[name])
                except OSError:
                    continue  # the entry is being replaced at this moment

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(100):
            prepare(directory, value=1)  # which checks the result
    finally:
        is_over.set()
        writer.join()
    prepare(directory, value=1)
    assert prepare(directory, value=1).cache is CacheOutcome.HIT
