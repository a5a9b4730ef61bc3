// alu_impl.h for every x86-64 host.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/alu.h"

#define TILEC_ALU alu_base
#include "runtime/emulator/alu_impl.h"
