"""Compiles for another process: texts come on standard input, object code goes to standard output.

It runs as a script in a Python without site packages, so it imports nothing of the package that it is part of.
"""

import gc
import json
import struct
import sys


def main() -> None:
    """Answers each text with its object code, both after their length in eight bytes, until there are no more.

    The argument is a JSON object: the `path` of llvmlite's folder, and the `cpu` and `features` that code is for.
    """
    # It makes no cycles that matter, and is not long for this world.
    gc.disable()
    about = json.loads(sys.argv[1])
    sys.path.append(about["path"])
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=about["cpu"], features=about["features"], opt=2, reloc="pic", codemodel="small"
    )
    texts, codes = sys.stdin.buffer, sys.stdout.buffer
    while length := texts.read(8):
        module = llvm.parse_assembly(texts.read(struct.unpack("<Q", length)[0]).decode())
        module.verify()
        code = machine.emit_object(module)
        codes.write(struct.pack("<Q", len(code)) + code)
        codes.flush()


if __name__ == "__main__":
    main()
