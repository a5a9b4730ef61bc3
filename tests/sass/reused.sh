#!/bin/sh
# `tilec build` warns where an older ptxas reuses registers of a product in flight (C737): with an
# assembler and a disassembler that are scripts, so that versions and code are ours.
#
#   reused.sh TILEC FILE.tile:KERNEL NAME=VALUE…     a kernel whose products take A from registers
#
# SPDX-License-Identifier: Apache-2.0
set -eu
tilec=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# An ELF file of 64 bits: header, names at 64, code at 80, two headers of sections at 96.
zeros() { head -c "$1" /dev/zero; }
{
  printf '\177ELF\2' && zeros 35 && printf '\140' && zeros 17 && printf '\100\0\2\0\0\0'
  printf '\0.text.k\0' && zeros 7 && zeros 16
  zeros 24 && printf '\100' && zeros 7 && printf '\20' && zeros 31
  printf '\1' && zeros 23 && printf '\120' && zeros 7 && printf '\20' && zeros 31
} > "$dir/cubin"

cat > "$dir/ptxas" <<'SCRIPT'
#!/bin/sh
here=$(dirname "$0")
[ "$1" != --version ] || { echo "Cuda compilation tools, release x, V$(cat "$here/version")"; exit 0; }
while [ "$1" != -o ]; do shift; done
cp "$here/cubin" "$2"
SCRIPT
printf '#!/bin/sh\ncat "%s/code"\n' "$dir" > "$dir/nvdisasm"
chmod +x "$dir/ptxas" "$dir/nvdisasm"

# The registers of A are written where $1 stands.
code() {
  printf '/*0000*/ %s ;\n' NOP
  printf '/*0010*/ %s ;\n' 'HGMMA.64x64x16.F32.BF16 R24, R4, gdesc[UR8], R24, gsb0'
  printf '/*0020*/ %s ;\n' "$1" 'WARPGROUP.DEPBAR.LE gsb0, 0x0' "$2" EXIT
}
failed=0
# version, what is written in flight, how many warnings
try() {
  echo "$1" > "$dir/version"
  code "$2" NOP | awk '{ sub(/[*]00[0-9]0[*]/, sprintf("*%04x*", 16 * (NR - 1))); print }' > "$dir/code"
  shift 2
  wanted=$1
  shift
  said=$(PTXAS="$dir/ptxas" NVDISASM="$dir/nvdisasm" "$tilec" build "$@" --emit=ptx -o "$dir/ptx" 2>&1) ||
    { echo "$said"; exit 1; }
  seen=$(echo "$said" | grep -c 'C737' || true)
  echo "ptxas $(cat "$dir/version"), \`$(sed -n '3s/.*\/ \(.*\) ;/\1/p' "$dir/code")\`: $seen of $wanted warnings"
  [ "$seen" = "$wanted" ] || { echo "$said"; failed=1; }
}
try 13.0.88 'MOV R5, R100' 1 "$@"
try 13.0.88 'MOV R8, R100' 0 "$@"
try 12.9.86 'LDS.128 R4, [R100]' 1 "$@"
try 13.1.80 'MOV R5, R100' 0 "$@"
exit $failed
