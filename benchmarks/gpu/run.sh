#!/usr/bin/env bash
# The mask kernel on a CUDA device: right against the CPU kernel, and how fast. Under four minutes, one command, from a bare
# checkout: it needs numpy, numba, torch and triton. The table and the record are written to $OUT (default: a new folder).
#
#   bash benchmarks/gpu/run.sh                                  all sizes, on the device
#   TRITON_INTERPRET=1 bash benchmarks/gpu/run.sh --small       tiny sizes in Triton's interpreter, without a device
#
# PYTHON picks the interpreter (default: python3).
set -eu
cd "$(dirname "$0")/../.."
OUT=${OUT:-$(mktemp -d)}
mkdir -p "$OUT"
export OUT PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 FSMC_COMPILE_ALONE=1
run=("${PYTHON:-python3}" benchmarks/gpu/apply_mask.py "$@")
if command -v timeout >/dev/null; then run=(timeout 235 "${run[@]}"); fi
"${run[@]}" 2>&1 | tee "$OUT/table.txt"
code=${PIPESTATUS[0]}
echo "written to $OUT"
exit "$code"
