// alu_impl.h for hosts with AVX2 and FMA (flags in CMakeLists.txt).
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/alu.h"

#define TILEC_ALU alu_avx2
#include "runtime/emulator/alu_impl.h"
