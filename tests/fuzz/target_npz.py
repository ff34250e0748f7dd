"""Fuzzes inputs of `neurald run --inputs`, `.npz` files."""

import io
import random
import tempfile
import tracemalloc
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from fuzz.target import Finding, byte_runs, kind_of, mutate_bytes

import neurald as nd
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import OperandType
from neurald.service.tensors.arrays import Slot, read_inputs

T = OperandType

#: Limit on the bytes that reading may allocate, whatever a file of a few kilobytes claims.
_MOST_ALLOCATED = 64 << 20


class NpzTarget:
    """Implements `Target`."""

    limit_s = 20.0
    address_space = 1 << 30

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "case.npz"
        kinds = (T.TENSOR_FLOAT32, T.TENSOR_INT32, T.TENSOR_BOOL8, T.TENSOR_STRING, T.TENSOR_COMPLEX64)
        self._slots = [
            Slot(key=name, alias=f"input_{n}", operand=Operand(type=kind, dimensions=(0, 3)))
            for n, (name, kind) in enumerate(zip("abcde", kinds, strict=True))
        ]

    def seeds(self) -> Sequence[bytes]:
        """See `Target.seeds`."""
        arrays = {
            "a": np.arange(6, dtype=np.float32).reshape(2, 3),
            "b": np.arange(6, dtype=np.int32).reshape(2, 3),
            "c": np.zeros((2, 3), np.bool_),
            "d": np.array([[b"x", b"yy", b"zzz"]] * 2),
            "e": np.zeros((2, 3), np.complex64),
        }
        by_place = {f"input_{n}": array for n, array in enumerate(arrays.values())}
        turned = {key: np.asfortranarray(array) for key, array in arrays.items()}
        texts = dict(arrays, d=np.array([["x", "yy", "zzz"]] * 2))
        pickled = dict(arrays, d=np.array([[b"x", None, 3]] * 2, object))
        made = [_saved(each) for each in (arrays, by_place, turned, texts, pickled)]
        made += [_saved(arrays, compressed=True), _second_version(arrays)]
        return made

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """See `Target.mutate`: mutates a member and updates its checksum, or mutates any bytes."""
        if rng.random() < 0.4:
            return mutate_bytes(content, rng)
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = {info.filename: archive.read(info) for info in archive.infolist()}
        except Exception:
            return mutate_bytes(content, rng)
        if not members:
            return mutate_bytes(content, rng)
        name = rng.choice(list(members))
        head = members[name][:128]
        changed, what = mutate_bytes(head, rng) if rng.random() < 0.7 else mutate_bytes(members[name], rng)
        members[name] = changed + members[name][128:] if len(changed) <= 200 else changed
        kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", kind) as archive:
            for each, data in members.items():
                archive.writestr(
                    rng.choice((each, each, each, f"../{each}", "/")) if rng.random() < 0.1 else each, data
                )
        return stream.getvalue(), f"member {what}"

    def run(self, content: bytes) -> str:
        """See `Target.run`."""
        self._path.write_bytes(content)
        tracemalloc.start()
        try:
            arrays = read_inputs(self._path, self._slots)
        except nd.Error as error:
            outcome = f"refused: {kind_of(str(error).replace(str(self._path), ''))}"
        else:
            for slot, array in zip(self._slots, arrays, strict=True):
                if array.ndim != 2 or array.shape[1] != 3 or array.dtype != slot.operand.type.dtype:
                    raise Finding(
                        f"an array of {array.dtype} {list(array.shape)} was accepted for {slot.describe()}"
                    )
            outcome = "read"
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        if peak > _MOST_ALLOCATED + 8 * len(content):
            raise Finding(f"{peak} bytes were allocated for a file of {len(content)} bytes")
        return outcome

    def pieces(self, content: bytes) -> Sequence[bytes]:
        """See `Target.pieces`."""
        return byte_runs(content)

    def joined(self, pieces: Sequence[bytes], content: bytes) -> bytes:
        """See `Target.joined`."""
        return b"".join(pieces)

    def close(self) -> None:
        """See `Target.close`."""
        self._folder.cleanup()


def _saved(
    arrays: dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"], *, compressed: bool = False
) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _second_version(arrays: dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, version=(2, 0), allow_pickle=False)
    return stream.getvalue()


def create(models: Path | None) -> NpzTarget:
    """Creates the target."""
    del models
    return NpzTarget()
