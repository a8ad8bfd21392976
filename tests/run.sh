#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what is missing, builds everything, runs every test. The last line is "N passed, N failed".
# usage: sh tests/run.sh [--sanitize]     --sanitize: with AddressSanitizer and UBSan, in build-sanitize/
set -eu
cd "$(dirname "$0")/.."
. examples/setup.sh
folder=build
case "$#:${1:-}" in
  0:) ;;
  1:--sanitize) folder=build-sanitize ;;
  *)
    sed -n 's/^# usage: /usage: /p' tests/run.sh >&2
    exit 2
    ;;
esac
install_missing
if [ $folder = build ]; then
  build build all
else
  build build-sanitize all -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1" \
    -DTAPEHEAD_SANITIZE=address,undefined
fi

say "running the tests; what they print is in $folder/Testing/Temporary/LastTest.log"
status=0
ctest --test-dir $folder --output-on-failure --parallel "$(getconf _NPROCESSORS_ONLN)" || status=1

# A test that is a doctest program counts its cases; any other test, or a program that crashed, counts as one.
awk -v status=$status '
  /^[0-9]+\/[0-9]+ Testing: / { cases = 0; lost = 0 }
  /^\[doctest\] test cases:/ {
    counts = $0; gsub(/[^0-9|]/, "", counts); split(counts, count, "|")
    cases = count[1]; lost = count[3]; passed += count[2]; failed += count[3]
  }
  /^Test Passed\.$/ { if (!cases) passed++ }
  /^Test (Failed|timeout)|^Test Timeout|^\*\*\*/ { if (!lost) failed++ }
  END {
    if (status && !failed) failed = 1
    printf "%d passed, %d failed\n", passed, failed
    exit failed > 0 || !passed
  }' $folder/Testing/Temporary/LastTest.log
