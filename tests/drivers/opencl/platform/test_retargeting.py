import pytest

from neurald.drivers.opencl.platform.retargeting import declared_local_memory, is_retargeted, retargeted
from neurald.hal.errors import OpFailed

_PTX = """\
.version 8.8
.target sm_90, texmode_independent
.address_size 64
.visible .entry run(
)
.reqntid 256, 1, 1
{
\t.shared .align 1024 .b8 run_$_neurald_local_98304[49152];
\t.shared .align 16 .b8 other_$_scratch[64];
\tmov.u64 %rd1, run_$_neurald_local_98304;
\t// begin inline asm
\t//@ wgmma.fence.sync.aligned;
\t// end inline asm
}
"""


def test_hidden_instructions_and_large_memory_appear() -> None:
    text = retargeted(_PTX.encode() + b"\0").decode()
    assert ".target sm_90a, texmode_independent\n" in text
    assert "\n\t wgmma.fence.sync.aligned;\n\t// end inline asm" in text
    assert "run_$_neurald_local_98304[98304];" in text
    assert "other_$_scratch[64];" in text
    assert "mov.u64 %rd1, run_$_neurald_local_98304;" in text


def test_binaries_that_are_no_ptx_are_refused() -> None:
    for code in (b"\x7fELF\0", b"", _PTX.encode() * 2):
        with pytest.raises(OpFailed, match="not PTX with one target"):
            retargeted(code)


def test_only_texts_with_hidden_instructions_are_retargeted() -> None:
    assert is_retargeted('asm("//@ wgmma;");')
    assert not is_retargeted("// A comment.")


def test_the_compiler_sees_local_memory_that_it_accepts() -> None:
    assert declared_local_memory(1024) == ("neurald_local_1024", 1024)
    assert declared_local_memory(196608) == ("neurald_local_196608", 49152)
