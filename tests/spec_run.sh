#!/bin/sh
# Runs the tests of language/spec.md: each snippet that has one becomes a file, which `tilec test`
# runs on the interpreter, and on the emulator against the interpreter.
# Usage: spec_run.sh TILEC SPEC FOLDER
#
# SPDX-License-Identifier: Apache-2.0
set -eu
tilec=$1 spec=$2 folder=$3
rm -rf "$folder"
mkdir -p "$folder"
awk -v folder="$folder" '
  !inside && /^```tile/ { inside = 1; text = ""; tested = 0; first = NR + 1; next }
  inside && /^```$/ {
    inside = 0
    if (tested) printf "%s", text > sprintf("%s/line%04d.tile", folder, first)
    next
  }
  inside { text = text $0 "\n"; if ($0 ~ /^test "/) tested = 1 }
' "$spec"
test "$(ls "$folder" | wc -l)" -ge 10
"$tilec" test --device=interpreter "$folder"/*.tile
# `print` is for the interpreter.
exec "$tilec" test --no-cache --schedule=sequential $(grep -L 'print(' "$folder"/*.tile)
