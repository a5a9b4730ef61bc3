#!/bin/sh
# runtime_sizes.sh LIBRARY BYTES …: each library, stripped, is no larger and needs neither LLVM nor Z3.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
while [ $# -ge 2 ]; do
  strip -o "$copy" "$1"
  size=$(stat -c %s "$copy")
  echo "$(basename "$1"): $size bytes of $2"
  [ "$size" -le "$2" ] || { echo "too large"; exit 1; }
  if ldd "$1" | grep -E 'LLVM|z3|icu|xml2|cadical'; then
    echo "the runtime needs a library of the compiler"
    exit 1
  fi
  shift 2
done
