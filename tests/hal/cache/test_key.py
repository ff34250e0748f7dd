"""Restates the cache keys of TestPartitioning, and what neurald's keys cover beyond them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.devices.caching import CachingDevice
from support.models.addition import addition
from support.sweeps import sweep

from neurald.hal.cache.key import KeyParts, key_parts
from neurald.hal.device import PrepareOptions
from neurald.hal.memory.pool import HostMemory, SharedMemory
from neurald.hal.model.constants import seal_constants
from neurald.hal.model.graph import ChannelQuant, Location, Operand, Operation
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType, Preference, Priority
from neurald.hal.records import replace

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def parts(model: Model | None = None, **options: object) -> KeyParts:
    return key_parts(model or addition(VALUES), CachingDevice(), PrepareOptions(**options))  # type: ignore[arg-type]


def with_operand(model: Model, index: int, **changes: object) -> Model:
    operands = list(model.main.operands)
    operands[index] = replace(operands[index], **changes)
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def test_ten_rebuilds_have_one_key() -> None:
    assert len({parts(addition(VALUES.copy())).key() for _ in range(10)}) == 1


def test_another_process_finds_the_same_key() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "import numpy as np\n"
        "from support.models.addition import addition\n"
        "from support.devices.caching import CachingDevice\n"
        "from neurald.hal.cache.key import key_parts\n"
        "from neurald.hal.device import PrepareOptions\n"
        "model = addition(np.arange(6, dtype=np.float32).reshape(2, 3))\n"
        "print(key_parts(model, CachingDevice(), PrepareOptions()).key().hex())\n"
    )
    for seed in ("1", "2"):
        said = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert said.stdout.strip() == parts().key().hex()


def test_names_and_the_place_of_constants_do_not_matter() -> None:
    model = addition(VALUES)
    assert parts(with_operand(model, 0, name="x")).key() == parts().key()
    assert parts(replace(model, input_names=("x",), output_names=("y",))).key() == parts().key()
    pool = HostMemory(np.concatenate([np.full(16, 7, np.float32), VALUES.reshape(-1)]))
    assert parts(addition(VALUES, pool=pool, offset=64)).key() == parts().key()
    inside = with_operand(model, 1, lifetime=Lifetime.CONSTANT_COPY, location=None, value=VALUES.tobytes())
    assert parts(inside).key() == parts().key()
    assert parts(seal_constants(model)).key() == parts().key()


def test_the_deadline_does_not_matter() -> None:
    assert parts(deadline_s=1.0).key() == parts().key()


def test_the_token_matters() -> None:
    keys = {
        key_parts(addition(VALUES), CachingDevice(), PrepareOptions(), token).key()
        for token in (b"", bytes(32), bytes(31) + b"\1")
    }
    assert len(keys) == 3


@sweep(
    ("options", "words"),
    [
        ({"preference": Preference.LOW_POWER}, "preference changed from FAST_SINGLE_ANSWER to LOW_POWER"),
        ({"priority": Priority.HIGH}, "priority changed from MEDIUM to HIGH"),
        ({"threads": 2}, "threads changed from None to 2"),
    ],
)
def test_options_matter(options: dict[str, object], words: str) -> None:
    changed = parts(**options)  # type: ignore[arg-type]
    assert changed.key() != parts().key()
    assert changed.changes_since(parts()) == (words,)


def test_the_device_matters() -> None:
    def of(device: CachingDevice) -> KeyParts:
        return key_parts(addition(VALUES), device, PrepareOptions())

    first = of(CachingDevice("one", "1"))
    assert of(CachingDevice("two", "1")).changes_since(first) == ("device changed from one to two",)
    assert of(CachingDevice("one", "2")).changes_since(first) == ("device version changed from 1 to 2",)
    # What is appended to the name is not taken off the version.
    assert of(CachingDevice("one1", "")).key() != first.key()


def test_this_package_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    before = parts()
    monkeypatch.setattr("neurald.hal.cache.key.__version__", "99")
    assert parts().key() != before.key()


CONSTANT = np.array([1, 2], np.float32)
GRAPH_CHANGES: dict[str, Callable[[Model], Model]] = {
    "relaxed": lambda model: replace(model, relaxed=True),
    "type": lambda model: with_operand(model, 0, type=OperandType.TENSOR_INT32),
    "dimensions": lambda model: with_operand(model, 0, dimensions=(0,)),
    "rank": lambda model: with_operand(model, 0, dimensions=None),
    "scalar": lambda model: with_operand(model, 0, dimensions=()),
    "scale": lambda model: with_operand(model, 0, scale=0.5),
    "zero point": lambda model: with_operand(model, 0, zero_point=1),
    "channels": lambda model: with_operand(
        model, 0, channel_quant=ChannelQuant(dimension=0, scales=(1.0, 2.0))
    ),
    "lifetime": lambda model: with_operand(model, 0, lifetime=Lifetime.TEMPORARY_VARIABLE),
    "subgraph": lambda model: with_operand(model, 0, subgraph=0),
    "referenced": lambda model: replace(model, referenced=(model.main,)),
    "operation": lambda model: replace(
        model,
        main=replace(
            model.main, operations=(Operation(type=OperationType.MUL, inputs=(0, 1, 2), outputs=(3,)),)
        ),
    ),
    "order": lambda model: replace(
        model,
        main=replace(
            model.main, operations=(Operation(type=OperationType.ADD, inputs=(1, 0, 2), outputs=(3,)),)
        ),
    ),
    "inputs": lambda model: replace(model, main=replace(model.main, inputs=())),
    "outputs": lambda model: replace(model, main=replace(model.main, outputs=(3, 3))),
    "operand": lambda model: replace(
        model, main=replace(model.main, operands=(*model.main.operands, Operand(type=OperandType.INT32)))
    ),
}


@sweep("change", GRAPH_CHANGES)
def test_the_graph_matters(change: str) -> None:
    model = addition(CONSTANT)
    before, after = parts(model), parts(GRAPH_CHANGES[change](model))
    assert after.key() != before.key()
    assert "the model's operations or operands changed" in after.changes_since(before)


def test_constants_matter() -> None:
    for index in range(VALUES.nbytes):
        content = bytearray(VALUES.tobytes())
        content[index] ^= 1
        changed = addition(VALUES, pool=HostMemory(bytes(content)))
        assert parts(changed).changes_since(parts()) == ("the model's constants changed",)
    other = with_operand(addition(VALUES), 2, value=b"\1\0\0\0")
    assert parts(other).changes_since(parts()) == ("the model's constants changed",)


def test_bytes_of_neighbouring_constants_are_told_apart() -> None:
    def model(first: int) -> Model:
        """Returns a model with two constants in four consecutive bytes."""
        base = addition(CONSTANT, pool=HostMemory(bytes(range(8))))
        one = Location(pool=0, offset=0, length=first)
        two = Location(pool=0, offset=first, length=8 - first)
        return with_operand(
            with_operand(base, 1, location=one),
            2,
            lifetime=Lifetime.CONSTANT_POOL,
            value=b"",
            location=two,
        )

    assert parts(model(4)).constants != parts(model(5)).constants


def test_what_cannot_change_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = addition(VALUES, pool=SharedMemory.constant(memoryview(VALUES.tobytes())))
    key = parts(sealed).key()
    views: list[int] = []
    original = SharedMemory.view

    def counted(self: SharedMemory, offset: int = 0, length: int | None = None) -> memoryview:
        views.append(offset)
        return original(self, offset, length)

    monkeypatch.setattr(SharedMemory, "view", counted)
    assert parts(sealed).key() == key
    assert views == []


def test_what_can_change_is_hashed_again() -> None:
    array = VALUES.copy()
    model = addition(VALUES, pool=HostMemory(array))
    before = parts(model).key()
    array[0, 0] = 99
    assert parts(model).key() != before
