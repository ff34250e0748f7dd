import copy
import pickle

import numpy as np
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import SCALARS, Scalar


@sweep("kind", SCALARS)
def test_each_type_is_one_object(kind: Scalar) -> None:
    assert getattr(Scalar, kind.name) is kind
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert copy.deepcopy(kind) is kind
    assert repr(kind) == f"Scalar.{kind.name}"


@sweep("kind", [each for each in SCALARS if each is not Scalar.INDEX])
def test_types_describe_their_elements(kind: Scalar) -> None:
    assert Scalar.of(np.dtype(kind.value)) is kind
    assert kind.size_bytes == np.dtype(kind.value).itemsize
    assert kind.is_float == (kind.dtype.kind == "f")
    assert kind.is_integer == (kind.dtype.kind in "iu")
