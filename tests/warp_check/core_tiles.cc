// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/core_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text.h"

namespace tilec::ir {

void CoreTiles::Fault(const char* what, const Op& op) {
  if (fault_.empty()) fault_ = fmt::format("{} {}", Info(op.kind).mnemonic, what);
}

void CoreTiles::Pass(const std::vector<ValueId>& from, size_t first_from,
                     const std::vector<ValueId>& to, size_t first_to) {
  const std::map<ValueId, int64_t> made_by = made_by_;
  const std::map<ValueId, int64_t> fenced = fenced_;
  for (size_t i = first_to; i < to.size(); ++i) {
    const ValueId source = from[i - first_to + first_from];
    made_by_.erase(to[i]), fenced_.erase(to[i]);
    if (const auto it = made_by.find(source); it != made_by.end()) made_by_[to[i]] = it->second;
    if (const auto it = fenced.find(source); it != fenced.end()) fenced_[to[i]] = it->second;
  }
}

void CoreTiles::Issue(const Op& op) {
  Product product;
  const ValueId acc = op.operands[0], left = op.operands[1];
  if (const auto it = made_by_.find(acc); it != made_by_.end()) {
    if (!flying_.count(it->second)) Fault("adds to a product as it was before it was awaited", op);
  } else if (!fenced_.count(acc)) {
    Fault("adds to what no mma_fence has passed", op);
  }
  if (fn_->type(left).kind != TypeKind::kSmem) {
    const auto it = fenced_.find(left);
    if (it == fenced_.end())
      Fault("reads registers that no mma_fence has passed", op);
    else
      product.operand = it->second;
  }
  flying_[issued_] = product;
  made_by_[op.results[0]] = issued_++;
  fenced_.erase(op.results[0]);
}

void CoreTiles::Await(const Op& op) {
  const int64_t ended = groups_ - op.i("pending");
  for (auto it = flying_.begin(); it != flying_.end();) {
    const Product& p = it->second;
    if (p.group < 0 || p.group >= ended) {
      ++it;
      continue;
    }
    const bool kept =
        p.operand < 0 || std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
          const auto fenced = fenced_.find(v);
          return fenced != fenced_.end() && fenced->second == p.operand;
        });
    if (!kept) Fault("ends a product whose operand in registers was let go", op);
    it = flying_.erase(it);
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const auto it = made_by_.find(op.operands[i]);
    if (it != made_by_.end() && flying_.count(it->second)) Fault("passes on what is under way", op);
    made_by_.erase(op.results[i]), fenced_.erase(op.results[i]);
  }
}

void CoreTiles::Do(OpId id) {
  const Op& op = fn_->ops[id];
  switch (op.kind) {
    case OpKind::kMma: Issue(op); return;
    case OpKind::kMmaCommit:
      for (auto& [number, product] : flying_)
        if (product.group < 0) product.group = groups_;
      ++groups_;
      return;
    case OpKind::kMmaWait: Await(op); return;
    case OpKind::kMmaFence:
      for (size_t i = 0; i < op.results.size(); ++i) {
        const auto it = made_by_.find(op.operands[i]);
        made_by_.erase(op.results[i]), fenced_.erase(op.results[i]);
        if (it != made_by_.end())
          made_by_[op.results[i]] = it->second;
        else
          fenced_[op.results[i]] = fences_++;
      }
      return;
    case OpKind::kYield: return;  // passed on as it is
    default: break;
  }
  for (ValueId v : op.operands)
    if (made_by_.count(v)) Fault("reads a product that is under way", op);
  for (ValueId v : op.results) made_by_.erase(v), fenced_.erase(v);
}

}  // namespace tilec::ir
