// Sums of rows that a loop adds up are reduced once, behind it:
//
//     x = for k (x = x0) { x + reduce(f(k)) }   →   t = for k (t = 0) { t + f(k) };  x = x0 +
//     reduce(t)
//
// Threads of a tile meet where it is reduced: by shuffles, and through shared memory and barriers
// where several warps hold a row. A loop that does so in every iteration waits for its loads with
// all warps at once, and loads nothing while they meet; now each warp goes on by itself. It costs
// the registers of the tile, where the sums had few. The largest and smallest of floats alike.
//
// A sum over several axes is a chain of reductions, which moves as one (`total += sum(X[r, c])`).
//
// Sums may be taken in any order (language/spec.md, 12). Types of fewer than 32 bits stay: within a
// reduction they are added up in 32. So do sums of what products make. Beside products sums of
// loads (squares of what is multiplied) are deferred where their tiles are no more than what the
// products of the iteration add up to: 48 of 329 instructions of a warp's iteration were shuffles
// and what adds them (pairwise distances, 128 x 128 x 64).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "ir/lower/operands.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

constexpr size_t kTiles = 3;  // of a loop
// What one thread may have of a row: it reduces that by itself.
constexpr int64_t kOfOneThread = 16;

class Deferrer {
 public:
  Deferrer(Function& fn, PassContext& cx) : fn_(fn), cx_(cx), uses_(fn) {}

  void Run() {
    std::vector<OpId> loops;
    for (OpId id : OpsInOrder(fn_)) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kFor) continue;
      const std::vector<OpId>& body = fn_.blocks[op.regions[0]].ops;
      if (std::all_of(body.begin(), body.end(), [&](OpId o) { return fn_.ops[o].regions.empty(); }))
        loops.push_back(id);
    }
    for (OpId id : loops) Defer(id);
  }

 private:
  struct Sum {
    size_t result;              // of the loop
    std::vector<OpId> reduces;  // one axis after the other, the tile's own first
    OpId add;
    ValueId tile(const Function& fn) const { return fn.ops[reduces.front()].operands[0]; }
  };

  // Is result i the carried value and a reduction, which nobody else looks at?
  std::optional<Sum> SumOf(const Op& loop, size_t i) const {
    const BlockId body = loop.regions[0];
    const ValueId carried = fn_.blocks[body].args[1 + i];
    const ValueId next = fn_.ops[fn_.blocks[body].ops.back()].operands[i];
    const OpId add = fn_.values[next].def;
    if (!add.valid() || fn_.ops[add].block != body || uses_.count(next) != 1 ||
        uses_.count(carried) != 1)
      return {};
    const Op& sum = fn_.ops[add];
    const DType dtype = fn_.type(next).dtype;
    std::string kind;
    switch (sum.kind) {
      case OpKind::kAdd: kind = "sum"; break;
      case OpKind::kMax: kind = "max"; break;
      case OpKind::kMin: kind = "min"; break;
      default: return {};
    }
    if (ByteSize(dtype) < 4 || (kind != "sum" && !IsFloat(dtype))) return {};
    if (sum.operands[0] != carried && sum.operands[1] != carried) return {};
    const ValueId term = sum.operands[sum.operands[0] == carried ? 1 : 0];
    if (Pinned(sum)) return {};
    Sum found{i, {}, add};
    int64_t summed = 1;
    for (ValueId v = term;; v = fn_.ops[found.reduces.front()].operands[0]) {
      const OpId reduce = fn_.values[v].def;
      if (!reduce.valid() || fn_.ops[reduce].block != body || uses_.count(v) != 1) break;
      const Op& of = fn_.ops[reduce];
      if (of.kind != OpKind::kReduce || of.s("kind") != kind || Pinned(of)) break;
      summed *= fn_.type(of.operands[0]).shape[static_cast<size_t>(of.i("axis"))];
      found.reduces.insert(found.reduces.begin(), reduce);
    }
    if (found.reduces.empty() || summed <= kOfOneThread ||
        fn_.type(found.tile(fn_)).elements() > cx_.target.lowering.defer_elements)
      return {};
    return found;
  }
  static bool Pinned(const Op& op) {
    return op.attr("pin_depth") || op.attr("pin_stage") || op.attr("pin_role") ||
           op.attr("pin_cycle");
  }

  // In a kernel with products: are these sums of loads, and their tiles no more than what the
  // loop's own products make?
  bool Beside(OpId id, const std::vector<Sum>& sums) const {
    if (!multiplies_) return true;
    const BlockId body = fn_.ops[id].regions[0];
    int64_t room = 0, tiles = 0;
    for (OpId op : fn_.blocks[body].ops)
      if (fn_.ops[op].kind == OpKind::kDot) room += fn_.type(fn_.ops[op].results[0]).elements();
    for (const Sum& sum : sums) {
      tiles += fn_.type(sum.tile(fn_)).elements();
      if (!MadeOfLoads(fn_, sum.tile(fn_), body)) return false;
    }
    return tiles <= room;
  }

  void Defer(OpId id) {
    std::vector<Sum> sums;
    std::set<OpId> gone;
    for (size_t i = 0; i < fn_.ops[id].results.size(); ++i)
      if (std::optional<Sum> sum = SumOf(fn_.ops[id], i)) {
        gone.insert(sum->reduces.begin(), sum->reduces.end());
        sums.push_back(std::move(*sum));
      }
    if (!Beside(id, sums)) return;
    // Where threads meet anyway, a loop gains nothing.
    const std::vector<OpId>& ops = fn_.blocks[fn_.ops[id].regions[0]].ops;
    const auto meets = [&](OpId op) {
      const OpKind kind = fn_.ops[op].kind;
      return kind == OpKind::kReduce || kind == OpKind::kArgReduce || kind == OpKind::kScan ||
             kind == OpKind::kRearrange;
    };
    if (sums.empty() || sums.size() > kTiles ||
        std::count_if(ops.begin(), ops.end(), meets) != std::ssize(gone))
      return;
    const BlockId block = fn_.ops[id].block, body = fn_.ops[id].regions[0];
    std::vector<OpId> before, behind;
    for (const Sum& sum : sums) {
      const OpKind combine = fn_.ops[sum.add].kind;
      const ValueId start = fn_.ops[id].operands[2 + sum.result];
      const ValueId result = fn_.ops[id].results[sum.result];
      const ValueId carried = fn_.blocks[body].args[1 + sum.result];
      const ValueId of = sum.tile(fn_);
      const Type tile = fn_.type(of);
      Builder b(fn_, block);
      b.SetSpan(fn_.ops[sum.reduces.front()].at);
      const auto place = [&](ValueId v, std::vector<OpId>& at) {
        fn_.blocks[block].ops.pop_back();
        at.push_back(fn_.values[v].def);
        return v;
      };
      const double inf = std::numeric_limits<double>::infinity();
      const double neutral = combine == OpKind::kMax ? -inf : combine == OpKind::kMin ? inf : 0;
      fn_.ops[id].operands[2 + sum.result] = place(b.Constant(tile, neutral), before);
      for (ValueId v : {result, carried, fn_.ops[sum.add].results[0]}) fn_.values[v].type = tile;
      fn_.ops[sum.add].operands = {carried, of};
      ValueId reduced = result;
      for (OpId reduce : sum.reduces) {
        const Attrs attrs = fn_.ops[reduce].attrs;  // copies: adding moves the ops
        const Type row = fn_.type(fn_.ops[reduce].results[0]);
        reduced = place(b.Value(OpKind::kReduce, {reduced}, row, attrs), behind);
      }
      b.SetSpan(fn_.ops[sum.add].at);
      const ValueId all = place(b.Binary(combine, start, reduced), behind);
      fn_.values[all].name = fn_.values[result].name;
      for (const Uses::Use& use : uses_.of(result)) fn_.ops[use.reader].operands[use.operand] = all;
      ++cx_.changes;
    }
    RebuildBlock(fn_, body, [&](OpId op, std::vector<OpId>& out) {
      if (gone.count(op) == 0) out.push_back(op);
    });
    RebuildBlock(fn_, block, [&](OpId op, std::vector<OpId>& out) {
      if (op == id) out.insert(out.end(), before.begin(), before.end());
      out.push_back(op);
      if (op == id) out.insert(out.end(), behind.begin(), behind.end());
    });
  }

  Function& fn_;
  PassContext& cx_;
  const Uses uses_;
  const bool multiplies_ = std::any_of(fn_.ops.begin(), fn_.ops.end(),
                                       [](const Op& op) { return op.kind == OpKind::kDot; });
};

}  // namespace

Result<> DeferReductions(Function& fn, PassContext& cx) {
  Deferrer(fn, cx).Run();
  return Done();
}

}  // namespace tilec::ir
