#!/usr/bin/env bash
# Makes the virtual environment that the engines to compare with live in: build/peers, or where NEURALD_PEERS says.
# They are no dependencies of the project. PYTHON names the interpreter to make it with.
set -euo pipefail
folder="${NEURALD_PEERS:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/peers}"
[[ -x "$folder/bin/python" ]] || "${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check ai-edge-litert onnxruntime openvino
echo "$folder"
