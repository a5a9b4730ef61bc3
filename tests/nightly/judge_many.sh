#!/usr/bin/env bash
# The corpus that the judge must be silent about, on all cores of a machine that has nothing but
# bash, coreutils and findutils:
#
#   judge_many.sh SECONDS OUT [CORES [SEEDS]]
#
# Expects jobs.txt and what it names beside it, as scripts/judge_bundle packs them. A job is one
# call under one schedule of the compiler: `tilec check --strict` with SEEDS (20) seeds of `random`
# and of `pct`, and the corners of the other policies. OUT/summary.txt gets a line for each job
# (verdict, executions, findings, seconds) and the sums; OUT/logs the whole reports of those that
# are not ok. Jobs that would begin after SECONDS are not run, and said. Exit status 0 only if all
# were run and nothing was found.
#
# SPDX-License-Identifier: Apache-2.0
set -u
if [ $# -lt 2 ]; then
  sed -n '2,14s/^# \{0,1\}//p' "$0"
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2/logs"
out=$(cd "$2" && pwd)
cores=${3:-$(nproc)}
export here out seeds=${4:-20} end=$(($(date +%s) + $1)) LD_LIBRARY_PATH="$here"
rm -f "$out"/part.* "$out/summary.txt"

job() {  # number, line of jobs.txt
  local left=$((end - $(date +%s))) log=$out/logs/$1.txt began=$SECONDS cache rc executions finds
  if [ "$left" -lt 1 ]; then
    echo "not run; $2" >"$out/part.$1"
    return
  fi
  cd "$here" || exit 2
  cache=$(mktemp -d)  # one compilation for all executions
  # shellcheck disable=SC2086
  timeout -k 5 "$left" ./tilec check --strict --seeds="$seeds" --cache-dir="$cache" $2 >"$log" 2>&1
  rc=$?
  rm -rf "$cache"
  executions=$(sed -n 's/.*: \([0-9]*\) executions.*/\1/p' "$log" | head -n 1)
  finds=$(sed -n 's/^  \([0-9]* errors, [0-9]* of portability, [0-9]* hints\)$/\1/p' "$log" | head -n 1)
  case $rc in
    0) verdict=ok && rm "$log" ;;
    1) verdict=WRONG ;;
    124 | 137) verdict="not run to the end" && rm "$log" ;;
    *) verdict="FAILED $rc" ;;
  esac
  echo "$verdict, ${executions:-0} executions, ${finds:-no finding}, $((SECONDS - began)) s; $2" \
    >"$out/part.$1"
}
export -f job

n=0
while read -r line; do
  n=$((n + 1))
  printf '%04d\0%s\0' "$n" "$line"
done <"$here/jobs.txt" | xargs -0 -n 2 -P "$cores" bash -c 'job "$@"' job

cat "$out"/part.* >"$out/summary.txt"
rm -f "$out"/part.*
total=$(grep -c . "$here/jobs.txt")
ok=$(grep -c '^ok' "$out/summary.txt")
{
  echo
  echo "$(cat "$here/version.txt"): $total jobs, $ok ok," \
    "$(grep -cE '^(WRONG|FAILED)' "$out/summary.txt") wrong or failed," \
    "$(grep -c '^not run' "$out/summary.txt") not run;" \
    "$(awk -F, '{ n += $2 } END { print n + 0 }' "$out/summary.txt") executions," \
    "$seeds seeds of random and of pct, $cores cores"
} >>"$out/summary.txt"
grep -vE '^(ok|not run)' "$out/summary.txt"
[ "$ok" = "$total" ]
