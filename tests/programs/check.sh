#!/bin/sh
# check.sh TILEC WANTED PROGRAM…: the program under `tilec check`. WANTED is `right`: it ends well and
# nothing is found; or CHECK:PLACE: the first finding is of that check and names the place.
#
# SPDX-License-Identifier: Apache-2.0
tilec=$1 wanted=$2
shift 2
out=$("$tilec" check --seeds=0 -- "$@" 2>&1)
status=$?
printf '%s\n' "$out"
if [ "$wanted" = right ]; then
  [ $status = 0 ] || { echo "exit status $status, not 0"; exit 1; }
  printf '%s\n' "$out" | grep -qx right || { echo "the result is not right"; exit 1; }
  printf '%s\n' "$out" | grep -q '^OK: no violation' || { echo "no verdict"; exit 1; }
  exit 0
fi
[ $status = 1 ] || { echo "exit status $status, not 1"; exit 1; }
# The first finding: its first lines, up to the next one.
first=$(printf '%s\n' "$out" | awk '/^error\[/ { n++ } n == 1')
printf '%s\n' "$first" | grep -q "^error\[${wanted%%:*}\]" || { echo "not ${wanted%%:*}"; exit 1; }
printf '%s\n' "$first" | grep -q "${wanted#*:}" || { echo "no ${wanted#*:}"; exit 1; }
