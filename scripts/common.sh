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
  local log
  log=$(mktemp)
  if ! cmake -S . -B "$build_dir" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DTILEC_TESTS=$tests >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "cmake could not configure the build; its output is above" >&2
    return 1
  fi
  rm -f "$log"
  headline "build with $jobs jobs"
  # Ninja prints one line per finished step; on a terminal it rewrites one line.
  NINJA_STATUS='[%f/%t %es] ' ninja -C "$build_dir" -j"$jobs" "$@"
}
