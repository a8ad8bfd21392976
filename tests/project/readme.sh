#!/bin/sh
# SPDX-License-Identifier: MIT
# The README shows examples/readme.cpp word for word, and its CMake lines are those of the consumer projects.
set -eu
cd "$(dirname "$0")/../.."
block() { awk -v start="\`\`\`$1" '$0 == start { inside = 1; next } /^```/ { inside = 0 } inside' README.md; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
block cpp >"$scratch/shown"
sed 1d examples/readme.cpp >"$scratch/compiled"
diff "$scratch/shown" "$scratch/compiled" || { echo "the README's script is not examples/readme.cpp" >&2; exit 1; }
block cmake | grep . >"$scratch/cmake"
while read -r line; do
  grep -qF "$line" tests/consumer/*/CMakeLists.txt || { echo "no consumer project says: $line" >&2; exit 1; }
done <"$scratch/cmake"
