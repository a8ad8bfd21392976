#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: pkg_config.sh SCRIPT PREFIX OUTPUT COMPILER [FLAG]...
# Compiles the script of the README with what pkg-config says, and runs it.
set -eu
script=$1 prefix=$2 output=$3
shift 3
folder=$(dirname "$(find "$prefix" -name tapehead.pc)")
export PKG_CONFIG_PATH="$folder"
"$@" "$script" -o "$output" $(pkg-config --cflags --libs tapehead)
LD_LIBRARY_PATH="$folder/.." "$output"
