import numpy as np
import pytest
from support.tflite.litert_files import two_signatures

from neurald.litert import Interpreter, SignatureRunner


@pytest.fixture
def interpreter() -> Interpreter:
    return Interpreter(model_content=two_signatures().build())


@pytest.fixture
def double(interpreter: Interpreter) -> SignatureRunner:
    return interpreter.get_signature_runner("double")


def test_a_call_resizes_and_computes(double: SignatureRunner) -> None:
    for shape in ((1,), (4,), (2, 3), (4,)):
        found = double(b=np.ones(shape, np.float32))
        np.testing.assert_array_equal(found["w"], np.full(shape, 2))
    assert double._subgraph_index == 1


def test_wrong_arguments(interpreter: Interpreter, double: SignatureRunner) -> None:
    for arguments, words in (
        ({}, "Invalid number of inputs provided for running a SignatureDef, expected 1 vs provided 0"),
        ({"q": np.ones(1)}, r"Invalid Input name \(q\) for SignatureDef"),
        ({"b": np.ones(1)}, "Got value of type FLOAT64"),
    ):
        with pytest.raises(ValueError, match=words):
            double(**arguments)
    with pytest.raises(ValueError, match="None interpreter provided"):
        SignatureRunner()
    with pytest.raises(ValueError, match="None signature_key provided"):
        SignatureRunner(interpreter)
    with pytest.raises(AttributeError):
        double(b=1.0)


def test_details(interpreter: Interpreter, double: SignatureRunner) -> None:
    double(b=np.ones(3, np.float32))
    assert double.get_input_details()["b"]["name"] == "double_b"
    assert double.get_output_details()["w"]["shape"].tolist() == [3]
    assert interpreter.get_tensor_details(1)[0]["shape"].tolist() == [3]
    np.testing.assert_array_equal(interpreter.get_tensor(0, 1), np.ones(3))
