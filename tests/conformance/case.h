// Conformance cases: for every form of runtime/emulator/ptx_isa.def programs that show what it
// does, with inputs made from a seed. The same text runs on silicon and on the emulator.
//
// A case's name is the instruction with its modifiers ("add.rn.ftz.f32"), so that a list of names
// is enough to make the programs again.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace tilec::conformance {

struct Row {
  std::string_view opcode, mods, operands;
};
const std::vector<Row>& Rows();  // of ptx_isa.def, in order

// One spelling of a row.
struct Variant {
  size_t row = 0;
  std::string opcode;
  std::vector<std::string> mods;
  std::vector<std::string> types;  // those of the modifiers that are the row's types
  bool Has(std::string_view mod) const;
  std::string Text() const;
};
// All mandatory choices; options one at a time, and in pairs where there are few.
std::vector<Variant> Variants(size_t row);

struct Case {
  std::string name;
  size_t row = 0;
  std::string declarations, body;
  std::vector<std::string> inputs;  // type of each 8-byte input cell; at most 4
  uint32_t ctas = 8, threads = 256, cluster = 1;
  uint32_t out_bytes = 16;   // per thread
  bool uses_memory = false;  // the 64 KiB at %mem are part of the result
  bool approximate = false;  // an f32 in each cell, compared by distance
  std::string directives;
  std::vector<runtime::TensorMapDesc> maps;  // `base` is an offset into the memory
};

// The cases of a variant; none if nothing is known about how to use it.
std::vector<Case> Cases(const Variant& variant);
// Every case of every row, in order.
std::vector<Case> AllCases();
// What has no result to compare with; names begin with "ask".
std::vector<Case> Questions();  // questions.cc

// The families (one file each); they add to `out`.
void LaneCases(const Variant& v, std::vector<Case>* out);    // lanes.cc: arithmetic by pattern
void MemoryCases(const Variant& v, std::vector<Case>* out);  // memory.cc
void CopyCases(const Variant& v, std::vector<Case>* out);    // copies.cc: asynchronous copies
void SyncCases(const Variant& v, std::vector<Case>* out);    // sync.cc: warps, barriers, control
void MatrixCases(const Variant& v, std::vector<Case>* out);  // matrices.cc

int TypeBits(std::string_view type);  // 0: no type
bool IsFloat(std::string_view type);

// Names of entries are given by the caller: several cases share a module.
std::string EntryText(const Case& c, const std::string& entry);
std::string ModuleHeader();

// Inputs: 32 bytes per thread.
std::vector<uint8_t> Inputs(const Case& c);
std::vector<uint8_t> Memory();
constexpr uint32_t kMemoryBytes = 64 << 10;

}  // namespace tilec::conformance
