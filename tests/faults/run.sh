#!/bin/sh
# SPDX-License-Identifier: MIT
# Breaks one line of a copy of the library at a time and expects core_test to fail. The last line is "N of N caught".
# usage: sh tests/faults/run.sh SOURCE FOLDER [WORD]     WORD: only faults whose title holds it
set -eu
source=$1 folder=$2 word=${3:-}
rm -rf "$folder/tree" "$folder/whole"
mkdir -p "$folder/tree"
for part in CMakeLists.txt LICENSE core layers examples tests; do
  cp -R "$source/$part" "$folder/tree/"
done
cp -R "$folder/tree" "$folder/whole" # the source may be edited while this runs
list=$folder/whole/tests/faults/faults.txt
# With little optimisation and for one instruction set, building the faulty file takes seconds; a compiler cache has the
# whole one at hand when it is put back.
cache=
if command -v ccache >/dev/null; then cache=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
cmake -S "$folder/tree" -B "$folder/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 \
  -DCMAKE_CXX_FLAGS=-DHWY_COMPILE_ONLY_STATIC -DCMAKE_COMPILE_WARNING_AS_ERROR=OFF $cache \
  >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }

build() { cmake --build "$folder/build" --target core_test --parallel "$(getconf _NPROCESSORS_ONLN)" >"$folder/log" 2>&1; }

# The table of operations sees most faults, and within seconds, so it runs before everything else. Left out is what is
# slow and shows nothing that others do not.
table='first derivatives*,second derivatives*,each input alone*'
slow='*16,384*,a million operations*'
unset TAPEHEAD_FULL
run() { TAPEHEAD_PROGRAMS=200 timeout 300 "$folder/build/tests/core_test" --abort-after=1 "$@" >"$folder/log" 2>&1; }
holds() { run --test-case="$table" && run --test-case-exclude="$table,$slow"; }
{ build && holds; } || { tail -n 30 "$folder/log" >&2; echo "the tests fail without a fault" >&2; exit 1; }

# One line of the copy with the text of "-" replaced by that of "+"; it must be there once.
replace() {
  OLD=$2 NEW=$3 awk '
    BEGIN { old = ENVIRON["OLD"]; new = ENVIRON["NEW"] }
    (at = index($0, old)) { ++found; $0 = substr($0, 1, at - 1) new substr($0, at + length(old)) }
    { print }
    END { exit found != 1 }' "$1"
}

all=0 caught=0
while IFS= read -r title; do
  case $title in '' | '#'*) continue ;; esac
  IFS= read -r old
  IFS= read -r new
  case $title in *"$word"*) ;; *) continue ;; esac
  all=$((all + 1))
  file=core/tapehead/${title%%:*}
  if ! replace "$folder/whole/$file" "${old#- }" "${new#+ }" >"$folder/tree/$file"; then
    echo "does not fit: $title"
  elif ! build; then
    echo "does not compile: $title"
  elif holds; then
    echo "MISSED: $title"
  else
    caught=$((caught + 1))
    echo "caught by \"$(sed -n 's/^TEST CASE:  //p' "$folder/log" | tail -n 1)\": $title"
  fi
  cp "$folder/whole/$file" "$folder/tree/$file"
done <"$list"
echo "$caught of $all caught"
[ "$all" -gt 0 ] && [ "$caught" -eq "$all" ]
