#!/usr/bin/env bash
# All fuzzers on all cores of a machine that has nothing but bash and coreutils:
#
#   run_many.sh SECONDS OUT [PART…]      parts: ptx, walls, differential, loops; SECONDS is shared
#
# Expects the programs beside it, as scripts/fuzz_bundle packs them. Every process has seeds of its
# own, counted from SEED (the day's number times a million); they are printed. One that dies, or
# reports something, leaves its log and input under OUT/found and its place is taken by the next
# seed. At the end a line for each kind: what was run, what came of it. Exit status 0 only if
# nothing was found.
# `walls` is all that a program under `tilec check` can hand us: PTX, launch files, maps, fatbins and
# calls of the driver; its last lines count inputs, crashes, hangs and the slowest input of each.
#
# SPDX-License-Identifier: Apache-2.0
set -u
if [ $# -lt 2 ]; then
  sed -n '2,14s/^# \{0,1\}//p' "$0"
  exit 2
fi
seconds=$1 out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
parts=("$@")
[ ${#parts[@]} != 0 ] || parts=(ptx differential)
cores=${CORES:-$(nproc)}
seed=${SEED:-$(($(date +%s) / 86400 * 1000000))}
share=$((seconds / ${#parts[@]}))
mkdir -p "$out/found" "$out/logs"
out=$(cd "$out" && pwd)
export LD_LIBRARY_PATH="$here/lib" UBSAN_OPTIONS=print_stacktrace=1
found_any=0

# Runs one program after the other until `end`; each gets its seed by $first.
slot() {  # name, end, first seed, seeds apart, command…
  local name=$1 end=$2 first=$3 step=$4 try=0 left log rc
  shift 4
  while left=$((end - $(date +%s))) && [ "$left" -ge 3 ] && [ "$try" -lt 50 ]; do
    log=$out/logs/$name.$try
    timeout -s ABRT -k 20 $((left + 45)) "$@" --seconds="$left" --seed="$first" >"$log" 2>&1
    rc=$?
    [ "$rc" = 0 ] && return
    echo "exit status $rc of: $* --seconds=$left --seed=$first" >>"$log"
    cp "$log" "$out/found/"
    first=$((first + step)) try=$((try + 1))
  done
}

# sum FILES… of the number before each WORD: sum "WORD" FILE…
sum() {
  local word=$1 total=0 line file
  shift
  for file in "$@"; do
    [ -f "$file" ] || continue
    while read -r line; do
      [[ $line =~ ([0-9]+)\ $word(,|$) ]] && total=$((total + BASH_REMATCH[1]))
    done <<<"$(grep -E '^(seed |parse_fuzz:|  )' "$file")"
  done
  echo "$total"
}

report() {  # kind, words to sum…
  local kind=$1 word line="" files=("$out"/logs/"$1".*)
  shift
  for word in "$@"; do line+="$(sum "$word" "${files[@]}") $word, "; done
  echo "$kind: ${line}$(ls "$out/found" | grep -c "^$kind\.") failing processes"
}

ptx() {
  local end=$(($(date +%s) + share)) k
  echo "ptx: $share s on $cores cores, seeds from $seed"
  for ((k = 0; k < cores; ++k)); do
    # Of eight: two texts, five launches of what loads, one of the tile language.
    case $((k % 8)) in
      1 | 2 | 4 | 5 | 6) slot "exec.$k" "$end" $((seed + k * 1000)) 1 "$here/ptx_exec_fuzz" --root="$here" & ;;
      7) slot "tile.$k" "$end" $((seed + k * 10000000)) 1000000 "$here/parse_fuzz" & ;;
      *) slot "texts.$k" "$end" $((seed + k * 1000)) 1 "$here/ptx_fuzz" --root="$here" & ;;
    esac
  done
  wait
  report texts texts loaded launches finished findings
  report exec texts loaded launches finished "with findings"
  report tile programs parsed
}

walls() {
  local end=$(($(date +%s) + share)) k
  echo "walls: $share s on $cores cores, seeds from $seed"
  for ((k = 0; k < cores; ++k)); do
    # Of twelve: four texts, four launches of what loads, two of the shim, maps, launch files.
    case $((k % 12)) in
      0 | 4 | 7 | 10) slot "texts.$k" "$end" $((seed + k * 1000)) 1 "$here/ptx_fuzz" --root="$here" & ;;
      1 | 5 | 8 | 11) slot "exec.$k" "$end" $((seed + k * 1000)) 1 "$here/ptx_exec_fuzz" --root="$here" & ;;
      2 | 6) slot "shim.$k" "$end" $((seed + k * 1000)) 1 "$here/shim_fuzz" & ;;
      3) slot "files.$k" "$end" $((seed + k * 1000)) 1 "$here/launch_fuzz" & ;;
      9) slot "maps.$k" "$end" $((seed + k * 1000)) 1 "$here/map_fuzz" & ;;
    esac
  done
  wait
  inputs=0
  wall texts texts -- loaded launches finished findings
  wall exec texts -- loaded launches finished "with findings"
  wall shim "fatbins read" refused calls -- "of which failed" launches
  wall files texts -- accepted
  wall maps maps -- encoded "still maps" moved
  echo "walls: $inputs inputs in all, $(ls "$out/found" | wc -l) failing processes"
}

# wall KIND, words that are inputs…, --, other words…: a line, and added to $inputs.
wall() {
  local kind=$1 line="" many=0 n files=("$out"/logs/"$1".*) hangs slowest
  shift
  while [ "$1" != -- ]; do
    n=$(sum "$1" "${files[@]}") many=$((many + n)) line+="$n $1, "
    shift
  done
  shift
  for word in "$@"; do line+="$(sum "$word" "${files[@]}") $word, "; done
  inputs=$((inputs + many))
  hangs=$(cat "$out/found/$kind".* 2>/dev/null | grep -cE '^---- hang|^exit status (124|137)')
  n=$(ls "$out/found" | grep -c "^$kind\.")
  slowest=$(cat "${files[@]}" 2>/dev/null | sed -n 's/^  slowest: \([0-9]*\) ms.*/\1/p' | sort -n | tail -1)
  echo "$kind: $many inputs ($line$((n - hangs)) crashes, $hangs hangs, slowest ${slowest:-?} ms)"
}

differential() {
  local end=$(($(date +%s) + share)) k name how
  echo "differential: $share s on $cores cores, seeds from $seed"
  for ((k = 0; k < cores; ++k)); do
    # Of eight: one with exact tensor cores, two under the solver's schedule alone.
    case $((k % 8)) in
      1) name=exact how="--schedule=mixed --arith=exact" ;;
      2 | 5) name=solved how="--schedule=solve" ;;
      *) name=fast how="--schedule=mixed" ;;
    esac
    slot "$name.$k" "$end" $((seed + k * 1000000)) 100000 "$here/tile_differential" $how \
      --keep="$out/found" &
  done
  wait
  report fast agree
  report exact agree
  report solved agree
  cat "$out"/logs/{fast,exact,solved}.* 2>/dev/null | grep -E '^ +[0-9]+ ' | grep -v ' agree$' |
    sed 's/^ *[0-9]* //' | sort | uniq -c
}

loops() {
  local end=$(($(date +%s) + share)) k
  echo "loops: $share s on $cores cores, seeds from $seed"
  for ((k = 0; k < cores; ++k)); do
    slot "loops.$k" "$end" $((seed + k * 1000)) 100 "$here/loop_schedules" --smaller=0 &
  done
  wait
  cat "$out"/logs/loops.* | sed -n 's/^loop_schedules: \([0-9]*\) programs.*/\1 programs/p; /^  *[0-9]/p' |
    awk '{ n = $1; $1 = ""; sum[$0] += n } END { for (w in sum) printf "%9d%s\n", sum[w], w }' |
    sort -k2
}

for part in "${parts[@]}"; do
  case $part in
    ptx | walls | differential | loops) $part ;;
    *) echo "there is no part $part" && exit 2 ;;
  esac
done
grep -hE '^(seed [0-9]|parse_fuzz: seeds|tile_differential: seeds)' "$out"/logs/* | cut -c1-160
found_any=$(ls "$out/found" | wc -l)
echo "found: $found_any files"
[ "$found_any" = 0 ]
