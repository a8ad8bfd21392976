#!/bin/sh
# SPDX-License-Identifier: MIT
# Every source file names its licence.
set -eu
cd "$(dirname "$0")/../.."
bad=$(find CMakeLists.txt .ci core layers examples tests -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.in' \
  -o -name '*.cmake' -o -name '*.sh' -o -name CMakeLists.txt -o -path '.ci/*' \) \
  -exec grep -L 'SPDX-License-Identifier: MIT$' {} +) || true
[ -z "$bad" ] || { printf 'no SPDX-License-Identifier line in\n%s\n' "$bad" >&2; exit 1; }
