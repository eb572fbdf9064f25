#!/usr/bin/env bash
# What a first build costs: the CPU time of configuring and building `tpplan` from nothing, as tools/quickstart does, over
# that of one file that includes the five libraries. Both on this machine, now, and one compiler at a time: processors may
# share a core, and then each counts the other's work. The file is compiled before and after, for machines change their pace.
#   tests/bench/first_build.sh [CMAKE-ARGUMENTS...]
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CCACHE_DISABLE=1 TIMEFORMAT='%U %S'

cpu() {  # the user and system seconds of a command and its children
  { time "$@" > "$folder/log" 2>&1 || { cat "$folder/log" > "$folder/failed"; false; }; } 2>&1 | awk '{print $1 + $2}'
  [ ! -e "$folder/failed" ] || { cat "$folder/failed" >&2; exit 1; }
}

printf '#include <%s>\n' CLI/CLI.hpp nlohmann/json.hpp re2/re2.h spdlog/spdlog.h yaml-cpp/yaml.h > "$folder/five.cc"
five() { cpu "${CXX:-c++}" -std=c++20 -O2 -DSPDLOG_FMT_EXTERNAL -c "$folder/five.cc" -o "$folder/five.o"; }
before="$(five) $(five)"
configure=$(cpu cmake --preset release -DTPPLAN_TESTS=OFF -B "$folder/build" "$@")
build=$(cpu cmake --build "$folder/build" --target tpplan --parallel 1)
one=$(printf '%s\n' $before $(five) $(five) | awk '{sum += $1} END {print sum / NR}')
awk -v one="$one" -v configure="$configure" -v build="$build" 'BEGIN {
  printf "one file with five libraries: %.1f s of CPU; configuring: %.1f s; building tpplan: %.1f s\n", one, configure, build
  printf "ratio: %.1f\n", (configure + build) / one
}'
