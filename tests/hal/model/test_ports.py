import pytest

from neurald.hal.errors import BadData
from neurald.hal.model.ports import port_at


def test_a_port_is_found_by_its_index() -> None:
    assert port_at("ab", 1, is_output=True) == "b"
    with pytest.raises(BadData, match="there is no output 2; the model has 2"):
        port_at("ab", 2, is_output=True)
    with pytest.raises(BadData, match="there is no input -1; the model has 2"):
        port_at("ab", -1, is_output=False)
