"""The error tree: one class a result code, all of them caught as nd.Error."""

import pytest
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import BadState, OpFailed, error_for, members, without_frames
from neurald.hal.model.types import Duration


@sweep("code", [code for code in nd.ResultCode if code], ids=str)
def test_every_code_has_its_error(code: nd.ResultCode) -> None:
    error = error_for(code, "what went wrong")
    assert isinstance(error, nd.Error)
    assert error.code is code
    assert str(error) == "what went wrong"


@pytest.mark.parametrize("text", ["", " ", "\n", "\x1b\0"], ids=repr)
def test_an_error_of_another_process_has_a_reason(text: str) -> None:
    assert "OUT_OF_MEMORY without a reason" in str(error_for(nd.ResultCode.OUT_OF_MEMORY, text))


def test_codes_are_distinct() -> None:
    kinds = {type(error_for(code, "")) for code in nd.ResultCode if code}
    assert len(kinds) == len(nd.ResultCode) - 1
    assert nd.Error("").code is OpFailed("").code


def test_members_are_named_as_they_are_written() -> None:
    assert members(Duration) == (
        "Duration.ON_HARDWARE, Duration.IN_DRIVER, Duration.FENCED_ON_HARDWARE or Duration.FENCED_IN_DRIVER"
    )


def test_kept_errors_refer_to_no_frames() -> None:
    def fails() -> None:
        try:
            raise OSError("first")
        except OSError as error:
            raise BadState("second") from error

    try:
        fails()
    except BadState:
        try:
            raise OpFailed("third")
        except OpFailed as error:
            kept = without_frames(error)
    each: BaseException | None = kept
    texts = []
    while each is not None:
        texts.append(str(each))
        assert each.__traceback__ is None
        each = each.__cause__ or each.__context__
    assert texts == ["third", "second", "first"]
