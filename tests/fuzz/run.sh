#!/usr/bin/env bash
# Builds the fuzz targets with clang's libFuzzer in a folder and runs each for a while:
#   tests/fuzz/run.sh BUILD_FOLDER SECONDS [TARGET...]
# Writes failing inputs to BUILD_FOLDER/findings, the corpus to BUILD_FOLDER/corpus, and the result of each target to
# BUILD_FOLDER/results (../record.py). Exits with 1 if a target crashed, leaked, hung or ran out of memory, and with 77 if
# clang is missing. CXX names another clang++. JOBS is the number of files to compile, and of targets to run, at once.
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: $0 BUILD_FOLDER SECONDS [TARGET...]" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$1"
build=$(cd "$1" && pwd)
seconds=$2
targets=("${@:3}")
[ ${#targets[@]} -gt 0 ] ||
  targets=({plan,model,graph,graph_text,manifest,compile,safetensors,specs,speeds,run,config,index,settings,baseline,editor}_fuzz)

# Prints the first clang++ that can link a fuzzer.
find_clang() {
  local name
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' > "$build/probe.cc"
  for name in ${CXX:-} clang++ clang++-{14..21}; do
    command -v "$name" > /dev/null || continue
    "$name" -fsanitize=fuzzer,address "$build/probe.cc" -o "$build/probe" 2> /dev/null || continue
    echo "$name"
    return
  done
}
clang=$(find_clang)
if [ -z "$clang" ]; then
  echo "skipped: clang with libFuzzer is not found" >&2
  exit 77
fi
cd "$root"
cmake --preset fuzz -B "$build" -DCMAKE_CXX_COMPILER="$clang" > /dev/null
cmake --build "$build" -j "${JOBS:-1}" --target "${targets[@]}"

# run_target TARGET: prints its output in one piece at the end, because targets run in parallel.
run_target() {
  local target=$1 status=0
  local corpus=$build/corpus/$target findings=$build/findings/$target log=$build/$target.log
  mkdir -p "$corpus" "$findings"
  # Limits that no input of 64 KiB should reach: 10 seconds or 1 GiB.
  python3 "$here/../record.py" "$build/results" "fuzz/$target" "$build/tests/fuzz/$target" \
    "$corpus" "$here/corpus/${target%_fuzz}" -dict="$here/${target%_fuzz}.dict" \
    -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=1024 -artifact_prefix="$findings/" \
    -print_final_stats=1 2> "$log" || status=1
  {
    echo "== $target, $seconds seconds"
    [ $status -eq 0 ] || { tail -n 60 "$log"; echo "== $target failed: the input is in $findings"; }
    grep -E '^stat::(number_of_executed_units|peak_rss_mb)' "$log" || true
  } > "$build/$target.said"
  cat "$build/$target.said"
  return $status
}

status=0
rm -rf "$build/results"
running=()
for target in "${targets[@]}"; do
  run_target "$target" &
  running+=($!)
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-1}" ]; do sleep 0.2; done
done
for one in "${running[@]}"; do wait "$one" || status=1; done
exit $status
