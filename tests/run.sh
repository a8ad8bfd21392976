#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what is missing, builds everything, runs every test. The last line is "N passed, N failed".
# usage: sh tests/run.sh [--sanitize] [--full]
#   --sanitize: with AddressSanitizer and UBSan, in build-sanitize/
#   --full: tests in their long form (100,000 random programs in place of 2,000, ...) and the planted faults; takes a
#   good part of an hour
set -eu
cd "$(dirname "$0")/.."
. examples/setup.sh
folder=build
configuration=Release
for option in "$@"; do
  case $option in
    --sanitize) folder=build-sanitize ;;
    --full)
      configuration=Full
      export TAPEHEAD_FULL=1
      ;;
    *)
      sed -n 's/^# usage: /usage: /p' tests/run.sh >&2
      exit 2
      ;;
  esac
done
install_missing
if [ $folder = build ]; then
  build build all
else
  # Asking for more memory than there is has to end in an exception, not in the sanitizer's own report.
  export ASAN_OPTIONS="${ASAN_OPTIONS:-allocator_may_return_null=1}"
  build build-sanitize all -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1" \
    -DTAPEHEAD_SANITIZE=address,undefined
fi

say "running the tests"
results=$PWD/$folder/test-results.xml
status=0
ctest --test-dir "$folder" --build-config $configuration --output-on-failure --parallel "$(getconf _NPROCESSORS_ONLN)" --output-junit "$results" \
  --test-output-size-passed 10000000 --test-output-size-failed 10000000 || status=1

# A doctest program counts its cases; any other test, or a program that broke down, counts as one. What a machine
# cannot test (exit code 77) does not count.
awk -v status=$status '
  /<testcase / { cases = good = bad = skipped = 0; ok = /status="run"/ }
  /<skipped message="SKIP_RETURN_CODE/ { skipped = 1 }
  /^\[doctest\] test cases:/ {
    counts = $0; gsub(/[^0-9|]/, "", counts); split(counts, count, "|")
    cases = 1; good = count[2]; bad = count[3]
  }
  /<\/testcase>/ && !skipped {
    if (!cases) good = ok
    if (!ok && !bad) bad = 1
    passed += good; failed += bad
  }
  END {
    if (status && !failed) failed = 1
    printf "%d passed, %d failed\n", passed, failed
    exit failed > 0 || !passed
  }' "$results"
