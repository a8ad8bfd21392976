#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what is missing, builds, trains self-attention to reverse sequences, and shows what it learned.
# usage: sh examples/run.sh [OPTIONS OF build/examples/reverse]
set -eu
top=$(dirname "$0")/..
(
  cd "$top"
  . examples/setup.sh
  install_missing
  build build reverse
)
exec "$top/build/examples/reverse" "$@"
