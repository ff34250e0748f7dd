"""Compile worker: reads IR from standard input and writes object code to standard output.

It runs as a script in a Python without site packages, so it imports nothing of its own package.
"""

import gc
import json
import struct
import sys


def main() -> None:
    """Replies to each module with its object code until the input ends.

    Each module and each reply is preceded by its length as eight bytes. The argument is a JSON
    object with the `path` of llvmlite's parent folder, the target's `cpu` and `features`, the size
    of the longest module for which LLVM reduces the strength of loops (`max_reduced_bytes`), and
    what is only in modules for which it does not (`subroutine_declaration`).
    """
    # The worker is short-lived and creates few cycles.
    gc.disable()
    about = json.loads(sys.argv[1])
    sys.path.append(about["path"])
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=about["cpu"], features=about["features"], opt=2, reloc="pic", codemodel="small"
    )
    subroutine = about["subroutine_declaration"].encode()
    texts, codes = sys.stdin.buffer, sys.stdout.buffer
    while length := texts.read(8):
        text = texts.read(struct.unpack("<Q", length)[0])
        module = llvm.parse_assembly(text.decode())
        module.verify()
        is_reduced = len(text) <= about["max_reduced_bytes"] and subroutine not in text
        llvm.set_option("", f"-disable-lsr={'false' if is_reduced else 'true'}")
        code = machine.emit_object(module)
        codes.write(struct.pack("<Q", len(code)) + code)
        codes.flush()


if __name__ == "__main__":
    main()
