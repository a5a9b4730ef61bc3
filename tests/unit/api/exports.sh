#!/bin/sh
# exports.sh HEADER WHOLE RUNTIME…: the libraries show what the headers declare and nothing else: every
# function of the C header in WHOLE, and in each RUNTIME all but those of the compiler.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
header=$1 whole=$2
shift 2
shown() { nm -D --defined-only "$1" | awk '{print $NF}' | sed 's/@.*//'; }
declared=$(sed 's,//.*,,' "$header" | grep -o 'tilec_[a-z0-9_]*(' | tr -d '(' | sort -u)
test "$(echo "$declared" | wc -l)" -ge 50
failed=0
for library in "$whole" "$@"; do
  names=$(shown "$library")
  # mangled: _ZN5tilec… and _ZNK5tilec…, a name of the namespace
  if others=$(echo "$names" | grep -Ev '^(tilec_|_ZNK?5tilec)'); then
    echo "$(basename "$library") shows what is nobody's business:" $others
    failed=1
  fi
  for name in $declared; do
    if [ "$library" != "$whole" ]; then
      case $name in
        tilec_compile* | tilec_kernel_* | tilec_launch* | tilec_prepare* | tilec_emit | tilec_text_free)
          continue ;;
      esac
    fi
    echo "$names" | grep -qx "$name" || { echo "$(basename "$library") has no $name"; failed=1; }
  done
done
exit $failed
