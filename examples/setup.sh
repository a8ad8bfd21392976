# SPDX-License-Identifier: MIT
# For examples/run.sh and tests/run.sh: installs what is missing and builds. Source it from the top folder.

say() { printf 'tapehead: %s\n' "$*"; }
fail() {
  say "$*" >&2
  exit 1
}

have_header() {
  for file in /usr/include/"$1" /usr/include/*/"$1" /usr/include/*/openblas*/"$1" /usr/local/include/"$1" \
    /opt/homebrew/include/"$1" /opt/homebrew/opt/openblas/include/"$1" /usr/local/opt/openblas/include/"$1"; do
    [ -e "$file" ] && return 0
  done
  return 1
}

# The packages by name, in one order for all systems. The names of six package managers, one line each:
# compiler, cmake, make, pkg-config, OpenBLAS, fmt, Highway, JSON for Modern C++, CLI11, doctest. "-" means that another
# tool installs it.
package_names() {
  case $1 in
    apt-get) echo g++ cmake make pkg-config libopenblas-dev libfmt-dev libhwy-dev nlohmann-json3-dev libcli11-dev doctest-dev ;;
    dnf) echo gcc-c++ cmake make pkgconf-pkg-config openblas-devel fmt-devel highway-devel json-devel cli11-devel doctest-devel ;;
    pacman) echo gcc cmake make pkgconf openblas fmt highway nlohmann-json cli11 doctest ;;
    zypper) echo gcc-c++ cmake make pkg-config openblas-devel fmt-devel highway-devel nlohmann_json-devel cli11-devel doctest-devel ;;
    apk) echo g++ cmake make pkgconf openblas-dev fmt-dev highway-dev nlohmann-json cli11-dev doctest-dev ;;
    brew) echo - cmake - pkgconf openblas fmt highway nlohmann-json cli11 doctest ;;
  esac
}

install_command() {
  case $1 in
    apt-get) echo "apt-get install -y --no-install-recommends" ;;
    dnf | zypper) echo "$1 install -y" ;;
    pacman) echo "pacman -S --needed --noconfirm" ;;
    apk) echo "apk add" ;;
    brew) echo "brew install" ;;
  esac
}

# One word per package, in the order of package_names: "-" if it is there already.
missing_marks() {
  command -v "${CXX:-c++}" >/dev/null && echo - || echo missing
  command -v cmake >/dev/null && echo - || echo missing
  command -v make >/dev/null || command -v ninja >/dev/null && echo - || echo missing
  command -v pkg-config >/dev/null && echo - || echo missing
  for header in openblas_config.h fmt/format.h hwy/highway.h nlohmann/json.hpp CLI/CLI.hpp doctest/doctest.h; do
    have_header "$header" && echo - || echo missing
  done
}

install_missing() {
  marks=$(missing_marks | tr '\n' ' ')
  case $marks in *missing*) ;; *) return 0 ;; esac
  manager=
  for name in apt-get dnf pacman zypper apk brew; do
    command -v $name >/dev/null && manager=$name && break
  done
  [ -n "$manager" ] || fail "no known package manager. Install a C++20 compiler, CMake 3.25, make, pkg-config," \
    "OpenBLAS with its headers, fmt, Highway, JSON for Modern C++, CLI11 and doctest, then run this again."
  set -- $(package_names $manager)
  packages=
  for mark in $marks; do
    [ "$mark" = missing ] && [ "$1" != - ] && packages="$packages $1"
    shift
  done
  [ -n "$packages" ] || fail "the system's own compiler tools are missing: run xcode-select --install"

  line=$(install_command $manager)$packages
  as_root=
  if [ $manager != brew ] && [ "$(id -u)" != 0 ]; then
    as_root=sudo
    command -v sudo >/dev/null || fail "these packages are missing, and only root can install them. The line for that:
  $(if [ $manager = apt-get ]; then echo 'apt-get update && '; fi)$line"
  fi
  say "installing$packages"
  if [ $manager = apt-get ]; then
    # Debian's packages ask questions unless told not to. Its lists are only fetched where they lack a package.
    line="env DEBIAN_FRONTEND=noninteractive $line"
    $as_root $line >/dev/null 2>&1 && return 0
    $as_root apt-get update -qq || fail "could not run:  $as_root apt-get update"
  fi
  $as_root $line >/dev/null || fail "could not run:  $as_root $line"
}

# build FOLDER TARGET [CMAKE OPTION]...: configures if need be, then builds.
build() {
  folder=$1 target=$2
  shift 2
  [ ! -e "$folder" ] || [ -w "$folder" ] || fail "$folder/ belongs to another user. Remove it, then run this again."
  if ! { [ -f "$folder/build.ninja" ] || [ -f "$folder/Makefile" ]; } ||
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$folder/CMakeCache.txt"; then
    command -v ninja >/dev/null && set -- -G Ninja "$@"
    say "configuring in $folder/ (the build after it takes minutes, once)"
    mkdir -p "$folder"
    cmake --fresh -S . -B "$folder" "$@" >"$folder/configure.log" 2>&1 || {
      cat "$folder/configure.log" >&2
      fail "CMake could not configure the build"
    }
  fi
  say "building in $folder/"
  cores=$(getconf _NPROCESSORS_ONLN)
  if [ -t 1 ]; then
    cmake --build "$folder" --target "$target" --parallel "$cores" || fail "the build failed"
  else
    cmake --build "$folder" --target "$target" --parallel "$cores" >"$folder/build.log" 2>&1 || {
      tail -n 40 "$folder/build.log" >&2
      fail "the build failed; all of its output is in $folder/build.log"
    }
  fi
}
