// SPDX-License-Identifier: Apache-2.0
#include "ir/op_info.h"

#include <iterator>

namespace tilec::ir {
namespace {

using enum OpShape;
using enum OpEffect;
using enum OpLevel;

// In OpInfo's declaration order, so rows read as designated initialisers.
constexpr OpInfo kOps[] = {
#define OP(Name, ...) OpInfo{.kind = OpKind::k##Name, __VA_ARGS__},
#include "ir/ops.def"
#include "ir/warp_ops.def"
#undef OP
};

constexpr bool TableIsSound() {
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (static_cast<size_t>(kOps[i].kind) != i || !kOps[i].mnemonic || !kOps[i].summary)
      return false;
    if (kOps[i].operands.min == -2 && kOps[i].shape == OpShape::kOther) return false;
    for (size_t j = 0; j < i; ++j)
      if (std::string_view(kOps[i].mnemonic) == kOps[j].mnemonic) return false;
  }
  return true;
}
static_assert(TableIsSound(), "op table: a row lacks its summary or arity, or repeats a mnemonic");

}  // namespace

const OpInfo& Info(OpKind kind) { return kOps[static_cast<size_t>(kind)]; }
std::span<const OpInfo> AllOps() { return kOps; }
std::optional<OpKind> OpFromMnemonic(std::string_view mnemonic) {
  for (const OpInfo& op : kOps)
    if (mnemonic == op.mnemonic) return op.kind;
  return std::nullopt;
}

}  // namespace tilec::ir
