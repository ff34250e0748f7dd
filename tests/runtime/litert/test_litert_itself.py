"""Describes and computes real models like LiteRT, where that is installed."""

import warnings
from pathlib import Path

import pytest
from support.files.data import MODELS, NO_MODELS
from support.tflite.same import assert_same

from neurald.litert import Interpreter, OpResolverType

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")

_FILES = sorted((MODELS / "ops").glob("*.tflite")) if MODELS else []


@pytest.mark.skipif(MODELS is None, reason=NO_MODELS)
@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_descriptions_are_the_same(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        theirs = litert.Interpreter(str(path), experimental_op_resolver_type=kind)
    ours = Interpreter(path, experimental_op_resolver_type=OpResolverType.AUTO)
    for name in ("get_input_details", "get_output_details", "_get_full_signature_list", "_get_ops_details"):
        assert_same(getattr(ours, name)(), getattr(theirs, name)(), name)
    for subgraph in range(theirs.num_subgraphs()):
        assert_same(ours.get_tensor_details(subgraph), theirs.get_tensor_details(subgraph), "tensors")
