"""Object code is kept for exactly the text that it was compiled from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.small import add_model

import neurald as nd
from neurald.drivers.cpu.native.objects import kernel_store
from neurald.drivers.cpu.native.objects.kernel_store import KernelStore
from neurald.drivers.cpu.native.objects.object_code import ObjectCompilation
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.cache.store import Cache
from neurald.hal.device import Artifact
from neurald.hal.memory.pool import HostMemory

TARGET = TARGETS["generic"]


class Kept:
    """Implements `neurald.hal.device.Variants` in memory."""

    def __init__(self) -> None:
        self.artifacts: dict[bytes, Artifact] = {}

    def load(self, name: bytes) -> Artifact | None:
        return self.artifacts.get(name)

    def store(self, name: bytes, artifact: Artifact, compile_ms: float) -> None:
        self.artifacts[name] = artifact


def test_code_is_returned_for_the_same_text_only() -> None:
    kept = Kept()
    KernelStore(kept, TARGET).add({"k1": b"code", "k2": b"other"}, {"k1": "text", "k2": "more"})
    store = KernelStore(kept, TARGET)
    assert store.get(Unit(name="k1", text="text")) == b"code"
    assert store.get(Unit(name="k1", text="text of the same name")) is None
    assert store.get(Unit(name="k3", text="text")) is None
    assert KernelStore(kept, TARGETS["avx2"]).get(Unit(name="k1", text="text")) is None


def test_kernels_of_several_stores_are_kept() -> None:
    kept = Kept()
    first, second = KernelStore(kept, TARGET), KernelStore(kept, TARGET)
    assert first.get(Unit(name="k2", text="more")) is None
    second.add({"k1": b"code"}, {"k1": "text"})
    first.add({"k2": b"other"}, {"k2": "more"})
    store = KernelStore(kept, TARGET)
    assert store.get(Unit(name="k1", text="text")) == b"code"
    assert store.get(Unit(name="k2", text="more")) == b"other"


def test_the_oldest_kernels_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_store, "_PACK_BYTES", 10)
    kept = Kept()
    store = KernelStore(kept, TARGET)
    for name in ("k1", "k2", "k3"):
        store.add({name: b"12345"}, {name: name})
    found = [KernelStore(kept, TARGET).get(Unit(name=name, text=name)) for name in ("k1", "k2", "k3")]
    assert found == [None, b"12345", b"12345"]


@pytest.mark.parametrize("damage", [lambda content: b"", lambda content: content[:-1] + b"x"])
def test_a_damaged_pack_is_empty(damage: Any) -> None:
    kept = Kept()
    KernelStore(kept, TARGET).add({"k1": b"code"}, {"k1": "text"})
    ((name, artifact),) = kept.artifacts.items()
    damaged = HostMemory(damage(bytes(artifact.model[0].view())))
    kept.artifacts[name] = Artifact(model=(damaged,), data=artifact.data)
    assert KernelStore(kept, TARGET).get(Unit(name="k1", text="text")) is None


def test_kept_kernels_are_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    unit = Unit(name="kept_kernel", text="define void @kept_kernel() {\n  ret void\n}\n")
    with ObjectCompilation(TARGET, store=KernelStore(kept, TARGET)) as compilation:
        compilation.add(unit)
        (code,) = compilation.finish().values()
    monkeypatch.setattr("neurald.drivers.cpu.native.objects.object_code._code_cache.get", lambda key: None)
    monkeypatch.setattr("neurald.drivers.cpu.native.objects.object_code._code", lambda unit, target: 1 / 0)
    with ObjectCompilation(TARGET, store=KernelStore(kept, TARGET)) as compilation:
        compilation.add(unit)
        assert compilation.finish() == {unit.name: code}


def test_models_share_kernels_in_the_cache(tmp_path: Path) -> None:
    written = []
    # No other test has compiled this, so that its code is not in memory.
    given = np.ones((7, 1303), np.float32)
    for threads in (1, 2):
        builder = nd.CompilationBuilder(add_model((7, 1303), operations=3), [nd.devices()[0]], threads)
        builder.set_caching(tmp_path, bytes(32))
        compilation = builder.finish()
        (found,) = compilation.run(given, given)
        np.testing.assert_array_equal(found, 4 * given)
        entries = [each.manifest for each in Cache(tmp_path).entries() if each.manifest is not None]
        variants = {each.parts.variant.partition(" ")[0]: each for each in entries}
        assert "kernels" in variants, f"{sorted(variants)} after {compilation.report}"
        written.append((len(entries), variants["kernels"].origin.created_s))
    assert [count for count, _ in written] == [2, 3]
    assert written[0][1] == written[1][1], "the second compilation has compiled nothing"
