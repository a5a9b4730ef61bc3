# What scripts/demo and scripts/check share: sourced, not run. Expects the repository root as the
# working directory. BUILD_DIR, JOBS and SKIP_INSTALL=1 may be set by the caller.
#
# SPDX-License-Identifier: Apache-2.0
build_dir=${BUILD_DIR:-build/release}
jobs=${JOBS:-$(nproc)}
# ccache: paths count from the checkout, so that one checkout finds what another one compiled.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}

headline() { printf '\n== %s\n' "$*"; }

groups=(build tests)  # of scripts/packages.txt; without `tests` none is configured

# prepare TARGET…: packages, configure, build. Each says what it does; the build shows progress.
prepare() {
  local tests=ON
  # a build that has tests keeps them
  [[ " ${groups[*]} " == *" tests "* ]] || grep -qs '^TILEC_TESTS:BOOL=ON' "$build_dir/CMakeCache.txt" ||
    tests=OFF
  if [ "${SKIP_INSTALL:-}" != 1 ]; then
    headline "packages"
    scripts/install_deps "${groups[@]}"
  fi
  headline "configure ($build_dir)"
  # Nothing was ever compiled here: neither this build nor, by ccache, another (cmake/at_once.cmake).
  local options=(-DTILEC_TESTS=$tests) at_once=${AT_ONCE:-}
  if [ -z "$at_once" ] && [ ! -e "$build_dir/CMakeCache.txt" ] &&
    [ ! -d "${CCACHE_DIR:-$HOME/.cache/ccache}" ]; then
    at_once=ON
  fi
  [ -z "$at_once" ] || options+=(-DTILEC_AT_ONCE="$at_once")
  configure "${options[@]}"
  headline "build with $jobs jobs"
  if ! grep -qs '^TILEC_AT_ONCE:BOOL=ON' "$build_dir/CMakeCache.txt"; then
    compile "$@"
    return
  fi
  echo "files of a library are compiled together; to work in this build: cmake -DTILEC_AT_ONCE=OFF $build_dir"
  local log apart
  log=$(mktemp)
  compile -k0 "$@" 2>&1 | tee "$log" && rm -f "$log" && return
  # Two files of a library have one name, likely: its files apart, and then all. What is wrong shows.
  apart=$(sed -nE 's|^FAILED: .*CMakeFiles/([^/]+)\.dir/Unity/.*|\1|p' "$log" | sort -u | paste -sd';')
  rm -f "$log"
  if [ -n "$apart" ]; then
    headline "build again: files of ${apart//;/, } apart"
    configure -DTILEC_APART="$apart"
    compile "$@" && return
  fi
  headline "build again: all files apart"
  configure -DTILEC_AT_ONCE=OFF
  compile "$@"
}

configure() {
  local log
  log=$(mktemp)
  if ! cmake -S . -B "$build_dir" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "cmake could not configure the build; its output is above" >&2
    return 1
  fi
  rm -f "$log"
}

# Ninja prints one line per finished step; on a terminal it rewrites one line.
compile() { NINJA_STATUS='[%f/%t %es] ' ninja -C "$build_dir" -j"$jobs" "$@"; }
