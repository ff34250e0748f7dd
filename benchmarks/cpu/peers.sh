#!/usr/bin/env bash
# Creates the virtual environment of the runtimes to compare with: build/peers, or $NEURALD_PEERS.
# They are not dependencies of the project. PYTHON names the interpreter to create it with.
set -euo pipefail
folder="${NEURALD_PEERS:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/peers}"
[[ -x "$folder/bin/python" ]] || "${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check ai-edge-litert onnxruntime openvino
echo "$folder"
