// What every tcgen05 instruction of a whole warp asks first: is it the whole warp, do its lanes
// agree, whose tensor memory is it, and how a fault of it is said.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/emulator/exec_tcgen05.h"
#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {

using judge::Rule;

// All 32 lanes are here. kNext: they are.
inline Step StepOfWholeWarp(Warp& w, const Inst& i, uint32_t mask) {
  if (w.live == ~0u) {
    const Step s = Converge(w, i, mask, ~0u);
    if (s == Step::kError) w.cta->cluster->fault.rule = Rule::kT11;
    if (s != Step::kNext) return s;
  }
  if (mask == ~0u) return Step::kNext;
  return FailRule(w, i, kConvergence, Rule::kT11,
                  fmt::format("`{}`: all 32 lanes of the warp must execute it, these do: {:#x}",
                              TextOf(w, i), mask));
}

// Do all lanes give the same value?
inline bool Uniform(Warp& w, const Inst& i, uint32_t row, const char* what) {
  const uint32_t* v = Row<uint32_t>(w, row);
  for (int l = 1; l < 32; ++l) {
    if (v[l] == v[0]) continue;
    FailRule(w, i, kConvergence, Rule::kT11,
             fmt::format("`{}`: lane {} gives {} {:#x}, lane 0 gives {:#x}", TextOf(w, i), l, what,
                         v[l], v[0]),
             l);
    return false;
  }
  return true;
}

inline Step TensorFault(Warp& w, const Inst& i, Rule rule, const std::string& why) {
  return FailRule(w, i, kTensorMemory, rule, fmt::format("`{}`: {}", TextOf(w, i), why));
}

inline bool ColumnsOk(Warp& w, const Inst& i, uint32_t n) {
  if (n >= kTensorUnit && n <= kTensorColumns && (n & (n - 1)) == 0) return true;
  TensorFault(w, i, Rule::kT1,
              fmt::format("{} columns, a power of two from 32 to 512 is needed", n));
  return false;
}

}  // namespace tilec::runtime::emulator
