"""`neurald conformance`."""

import json

from support.command_line import error_of, invoke


def test_a_good_device() -> None:
    result = invoke("conformance", "--device", "sample-quant", "--operation", "ADD", "--count", "1")
    assert result.exit_code == 0, result.stderr
    assert "operations" in result.stdout
    assert "it takes 8-bit asymmetric tensors only" in result.stdout


def test_a_faulty_device() -> None:
    arguments = ("conformance", "--device", "support.faulty:create_adding_one", "--operation", "ADD")
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert "ADD form 0, TENSOR_FLOAT32" in result.stdout
    result = invoke(*arguments, "--json", "--count", "1", "--seed", "7")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["device"] == "faulty"
    assert document["counts"]["operations"]["failed"] > 0
    assert {found["seed"] for found in document["results"] if found["group"] == "operations"} == {7}


def test_wrong_names() -> None:
    assert "there is no device 'nothing'" in error_of("conformance", "--device", "nothing")
    message = error_of("conformance", "--device", "cpu", "--operation", "FLY")
    assert "there is no operation 'FLY'" in message


def test_a_folder_without_records(tmp_path: object) -> None:
    arguments = ("conformance", "--device", "cpu", "--operation", "RELU", "--vectors", str(tmp_path))
    assert "has no conformance records" in error_of(*arguments)
