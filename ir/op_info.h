// The op tables (ops.def, warp_ops.def) as data: names, arity, attributes, effects.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tilec::ir {

enum class OpKind : uint8_t {
#define OP(Name, ...) k##Name,
#include "ir/ops.def"
#include "ir/warp_ops.def"
#undef OP
};

inline constexpr int kMany = -1;  // any number
inline constexpr bool kOptional = true;

enum class OpShape : uint8_t { kOther, kUnaryEw, kBinaryEw, kTernaryEw };
enum class OpEffect : uint8_t { kPure, kRead, kWrite, kControl };
enum class OpLevel : uint8_t { kTile, kWarp };
enum class AttrKind : uint8_t { kNone, kInt, kNumber, kInts, kString };

struct AttrSpec {
  const char* name = nullptr;
  AttrKind kind = AttrKind::kNone;
  bool optional = false;
};

struct Arity {
  int min = -2;  // −2: follows from `shape`
  int max = -2;  // kMany: unbounded
};

struct OpInfo {
  OpKind kind;
  const char* mnemonic = nullptr;
  const char* summary = nullptr;
  OpShape shape = OpShape::kOther;
  Arity operands;
  int results = 1;  // kMany: any number
  int regions = 0;
  OpEffect effect = OpEffect::kPure;
  OpLevel level = OpLevel::kTile;
  AttrSpec attrs[14];

  constexpr int min_operands() const {
    return operands.min >= 0 ? operands.min : static_cast<int>(shape);
  }
  constexpr int max_operands() const {
    return operands.min >= 0 ? operands.max : static_cast<int>(shape);
  }
  constexpr bool elementwise() const { return shape != OpShape::kOther; }
};

// Marks: attributes that any op of the tile level may carry beside those of its row. They mean
// nothing to its value.
inline constexpr AttrSpec kMarks[] = {
    {"slice", AttrKind::kInt, true},        // the row slice it works for (ir/slice_rows.h)
    {"pin_depth", AttrKind::kInt, true},    // #[depth = n]: slots of a load's ring
    {"pin_stage", AttrKind::kInt, true},    // #[stage = n]
    {"pin_role", AttrKind::kString, true},  // #[role = name]: ops of one name share a role
    {"kept", AttrKind::kInt, true},         // a load of a kept tile: which time, 0 the first
    {"role", AttrKind::kInt, true},         // the compute role that executes it (ir/loop_plan.h)
    {"await", AttrKind::kInts, true},       // order tokens it waits for before it issues
    {"signal", AttrKind::kInts, true},      // order tokens it passes on once it has issued
};

const OpInfo& Info(OpKind kind);
std::span<const OpInfo> AllOps();
std::optional<OpKind> OpFromMnemonic(std::string_view mnemonic);

// Its regions are executed again and again.
constexpr bool IsLoop(OpKind kind) { return kind == OpKind::kFor || kind == OpKind::kWhile; }
// Its result has elements of its operand as they are, in other places.
constexpr bool Renames(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReshape || kind == OpKind::kTranspose;
}
// No thread spends anything on it but registers.
constexpr bool IsFree(OpKind kind) {
  return Renames(kind) || kind == OpKind::kConstant || kind == OpKind::kIota ||
         kind == OpKind::kBitcast;
}

}  // namespace tilec::ir
