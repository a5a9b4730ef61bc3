// Common subexpressions: the second op of a kind with the same operands, attributes and result
// types is replaced by the first, if that stands above it in the same or an enclosing region.
// Pure ops, and loads of tensors nobody writes.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <map>
#include <string>

#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

std::string KeyOf(const Function& fn, const Op& op) {
  std::string key = Info(op.kind).mnemonic;
  for (ValueId v : op.operands) key += fmt::format(" %{}", v.index);
  for (const auto& [name, value] : op.attrs) {
    key += fmt::format(" {}=", name);
    if (const int64_t* n = std::get_if<int64_t>(&value))
      key += fmt::format("{}", *n);
    else if (const double* d = std::get_if<double>(&value))
      key += fmt::format("bits {}", std::bit_cast<uint64_t>(*d));  // −0 is not 0, NaN is NaN
    else if (const std::string* s = std::get_if<std::string>(&value))
      key += fmt::format("\"{}\"", *s);
    else
      key += fmt::format("{}", std::get<std::vector<int64_t>>(value));
  }
  return key + " : " + ToText(fn.type(op.results[0]));
}

struct Eliminator {
  Function& fn;
  PassContext& cx;
  Forwarding forward;
  std::map<std::string, ValueId> known;

  bool Applies(const Op& op) const {
    if (op.results.size() != 1 || !op.regions.empty()) return false;
    return Info(op.kind).effect == OpEffect::kPure || IsReadOnlyLoad(fn, op);
  }

  void Block(BlockId block) {
    std::vector<std::map<std::string, ValueId>::iterator> added;
    RebuildBlock(fn, block, [&](OpId id, std::vector<OpId>& out) {
      forward.ResolveOperands(fn.ops[id]);
      if (Applies(fn.ops[id])) {
        const ValueId result = fn.ops[id].results[0];
        auto [it, fresh] = known.emplace(KeyOf(fn, fn.ops[id]), result);
        if (!fresh) {
          forward.Replace(result, it->second);
          ++cx.changes;
          return;
        }
        added.push_back(it);
      }
      out.push_back(id);
      const std::vector<BlockId> regions = fn.ops[id].regions;
      for (BlockId region : regions) Block(region);
    });
    for (auto it : added) known.erase(it);
  }
};

}  // namespace

Result<> Cse(Function& fn, PassContext& cx) {
  Eliminator cse{fn, cx, Forwarding(fn), {}};
  cse.Block(fn.body);
  return Done();
}

}  // namespace tilec::ir
