#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: install.sh SOURCE BUILD PREFIX
# Installs, moves the installed tree elsewhere (it must not mind), and looks for paths that only exist here.
set -eu
source=$1 build=$2 prefix=$3
rm -rf "$prefix" "$prefix.first"
cmake --install "$build" --prefix "$prefix.first" >/dev/null
mv "$prefix.first" "$prefix"
if find "$prefix" \( -name '*.cmake' -o -name '*.pc' \) -exec grep -F -e "$source" -e "$build" {} +; then
  echo "installed files name the folders they were built in" >&2
  exit 1
fi
