#!/bin/sh
# hostile.sh TILEC HOST CASE: a program that means harm, under `tilec check`: it is told no, ends by
# itself, and so does the check, within ten seconds and little memory.
#
# SPDX-License-Identifier: Apache-2.0
tilec=$1 host=$2 case=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -v 8000000
TMPDIR=$work timeout 10 "$tilec" check --seeds=1 --max-memory=1024 --max-instructions=100000 -- \
  "$host" "$case" >"$work/out" 2>&1
status=$?
cut -c1-300 "$work/out" | head -40
# 0: nothing found; 1: something was, a fault of the kernel at most; 2: nothing to check.
case $status in 0 | 1 | 2) ;; *) echo "exit status $status"; exit 1 ;; esac
grep -qx held "$work/out" || { echo "not held"; exit 1; }
! grep -q 'AddressSanitizer\|runtime error:\|terminate called\|CHECK failed' "$work/out"
