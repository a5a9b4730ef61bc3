// SPDX-License-Identifier: Apache-2.0
#include "tools/random_inputs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "ir/numerics.h"
#include "support/check.h"
#include "tools/diagnostics.h"

namespace tilec::tools {

namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

// Follows what is loaded from one tensor to where it decides something.
class UseWalk {
 public:
  UseWalk(const ir::Function& fn, const Shapes& shapes,
          const std::map<ValueId, std::vector<std::pair<OpId, size_t>>>& users)
      : fn_(fn), shapes_(shapes), users_(users) {}

  IntegerUse Of(const ir::Param& p) {
    for (OpId id : ir::OpsInOrder(fn_)) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kLoad && op.operands[0] == p.value) Follow(op.results[0], 1);
    }
    while (!open_.empty()) {
      const auto [value, factor] = open_.back();
      open_.pop_back();
      const auto at = users_.find(value);
      if (at == users_.end()) continue;
      for (const auto& [op, operand] : at->second) Visit(fn_.ops[op], op, operand, factor);
    }
    for (const auto& [op, bounds] : loops_) use_.both_bounds |= bounds == 3;
    return use_;
  }

 private:
  void Follow(ValueId v, int64_t factor) {
    if (seen_.insert(v).second) open_.push_back({v, factor});
  }

  std::optional<int64_t> ConstantOf(ValueId v) const {
    const Op* op = fn_.def(v);
    while (op && (op->kind == OpKind::kBroadcast || op->kind == OpKind::kReshape))
      op = fn_.def(op->operands[0]);
    if (!op || op->kind != OpKind::kConstant || ir::IsFloat(fn_.type(op->results[0]).dtype))
      return std::nullopt;
    return op->i("value");
  }

  // Made of positions of a range: an iota, or the variable of a loop.
  bool IsPosition(ValueId v, int depth = 0) const {
    const Op* op = fn_.def(v);
    if (!op) return !fn_.param(v);
    if (op->kind == OpKind::kIota) return true;
    if (depth > 8 || op->kind == OpKind::kLoad) return false;
    return std::any_of(op->operands.begin(), op->operands.end(),
                       [&](ValueId a) { return IsPosition(a, depth + 1); });
  }

  // Operand `at` of a load, store or atomic that begins its indices at `first`.
  void Access(const Op& op, size_t at, size_t first, bool two_each, int64_t factor) {
    const ir::Param* p = fn_.param(op.operands[0]);
    const auto shape = p ? shapes_.find(p->name) : shapes_.end();
    if (shape == shapes_.end()) return;
    const std::string& modes = op.s("modes");
    size_t next = first;
    for (size_t d = 0; d < modes.size() && next < op.operands.size(); ++d) {
      const size_t start = next++;
      if (modes[d] == 'r' && two_each) ++next;
      if (at < start || at >= next || d >= shape->second.size()) continue;
      const int64_t room = std::max<int64_t>(1, shape->second[d] / std::max<int64_t>(1, factor));
      use_.positions = use_.positions > 0 ? std::min(use_.positions, room) : room;
      use_.stored_to |= op.kind == OpKind::kStore && factor == 1;
    }
  }

  void Compare(const Op& op, size_t operand) {
    const ValueId other = op.operands[1 - operand];
    if (const auto c = ConstantOf(other))
      use_.constants.push_back(*c);
    else if (IsPosition(other))
      use_.bound = true;
  }

  // What a region yields becomes its op's results and, of a loop, its arguments.
  void Yielded(const Op& yield, size_t operand, int64_t factor) {
    const OpId parent = fn_.blocks[yield.block].parent;
    if (!parent.valid()) return;
    const Op& outer = fn_.ops[parent];
    if (outer.kind != OpKind::kFor && outer.kind != OpKind::kIf) return;
    if (operand < outer.results.size()) Follow(outer.results[operand], factor);
    if (outer.kind == OpKind::kFor) Follow(fn_.blocks[outer.regions[0]].args[operand + 1], factor);
  }

  void Loop(const Op& op, OpId id, size_t operand, int64_t factor) {
    if (operand < 2) {
      use_.bound = true;
      loops_[id] |= operand == 0 ? 1 : 2;
      return;
    }
    Follow(fn_.blocks[op.regions[0]].args[operand - 1], factor);
    Follow(op.results[operand - 2], factor);
  }

  void Visit(const Op& op, OpId id, size_t operand, int64_t factor) {
    if (op.kind == OpKind::kLoad) return Access(op, operand, 1, false, factor);
    if (op.kind == OpKind::kStore || op.kind == OpKind::kAtomic)
      return operand == 1 ? void() : Access(op, operand, 2, true, factor);
    if (op.kind == OpKind::kFor) return Loop(op, id, operand, factor);
    if (op.kind == OpKind::kYield) return Yielded(op, operand, factor);
    if (op.kind == OpKind::kCmp) return Compare(op, operand);
    if (op.kind == OpKind::kParallel || op.kind == OpKind::kWhile) {
      use_.bound = true;
      return;
    }
    if (op.results.size() != 1) return;
    const ir::DType to = fn_.type(op.results[0]).dtype;
    if (ir::IsFloat(to)) {
      use_.becomes_float |= op.kind != OpKind::kBitcast;
      return;
    }
    if (op.kind == OpKind::kMul) {
      const auto c = ConstantOf(op.operands[1 - operand]);
      int64_t product = factor;
      if (c && *c > 0 && !__builtin_mul_overflow(factor, *c, &product))
        return Follow(op.results[0], product);
    }
    Follow(op.results[0], factor);
  }

  const ir::Function& fn_;
  const Shapes& shapes_;
  const std::map<ValueId, std::vector<std::pair<OpId, size_t>>>& users_;
  IntegerUse use_;
  std::vector<std::pair<ValueId, int64_t>> open_;
  std::set<ValueId> seen_;
  std::map<OpId, int> loops_;  // 1: the lower bound, 2: the upper one
};

struct Random {
  uint64_t state;
  uint64_t Next() {  // splitmix64
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // 0 … n − 1
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(std::max<int64_t>(1, n)));
  }
};

// Whole range of a dtype with `bits`; wider ones by magnitude, so that small numbers occur.
int64_t AnyInteger(Random& random, ir::DType d, int64_t bits) {
  const bool is_signed = ir::IsSigned(d);
  int64_t width = bits;
  if (bits > 8) width = 1 + random.Below(bits);
  const uint64_t mask = width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  auto n = static_cast<int64_t>(random.Next() & mask);
  if (is_signed && bits > 8 && width == bits)
    n = static_cast<int64_t>(static_cast<uint64_t>(n) >> 1);
  if (is_signed && bits > 8 && random.Next() >> 63) n = -n - 1;
  return ir::WrapInt(d, n);
}

std::vector<int64_t> Integers(ir::DType dtype, size_t count, const IntegerUse& use,
                              const std::vector<int64_t>& extents, Random& random) {
  std::vector<int64_t> out(count);
  const int64_t bits = ir::Info(dtype).bits;
  for (size_t i = 0; i < count; ++i) {
    if (use.positions > 0)
      out[i] = random.Below(use.positions);
    else if (use.bound && !extents.empty())
      out[i] = random.Below(
          extents[static_cast<size_t>(random.Below(static_cast<int64_t>(extents.size())))] + 1);
    else
      out[i] = AnyInteger(random, dtype, use.becomes_float ? std::min<int64_t>(bits, 16) : bits);
    if (!use.constants.empty() && use.positions == 0 && random.Below(4) == 0)
      out[i] = use.constants[static_cast<size_t>(
          random.Below(static_cast<int64_t>(use.constants.size())))];
  }
  if (use.stored_to && use.positions >= static_cast<int64_t>(count)) {
    std::vector<int64_t> all(static_cast<size_t>(use.positions));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    for (size_t i = 0; i < count; ++i)
      std::swap(all[i],
                all[i + static_cast<size_t>(random.Below(static_cast<int64_t>(all.size() - i)))]);
    std::copy_n(all.begin(), count, out.begin());
  }
  if (use.both_bounds) std::sort(out.begin(), out.end());
  for (int64_t& n : out) n = ir::WrapInt(dtype, n);
  return out;
}

}  // namespace

std::map<std::string, IntegerUse> IntegerUses(const ir::Function& fn, const Shapes& shapes) {
  std::map<ValueId, std::vector<std::pair<OpId, size_t>>> users;
  for (OpId id : ir::OpsInOrder(fn))
    for (size_t i = 0; i < fn.ops[id].operands.size(); ++i)
      users[fn.ops[id].operands[i]].push_back({id, i});
  std::map<std::string, IntegerUse> out;
  for (const ir::Param& p : fn.params)
    if (p.kind == ir::ParamKind::kTensor && ir::IsInteger(fn.type(p.value).dtype))
      out[p.name] = UseWalk(fn, shapes, users).Of(p);
  return out;
}

ir::TensorValue RandomTensor(ir::DType dtype, const std::vector<int64_t>& dims,
                             const IntegerUse& use, const Shapes& shapes, uint64_t seed) {
  if (dtype == ir::DType::kBool || ir::IsFloat(dtype))
    return ir::TensorValue::Random(dtype, dims, seed);
  ir::TensorValue t = ir::TensorValue::Zeros(dtype, dims);
  std::set<int64_t> extents;
  for (const auto& [name, shape] : shapes) extents.insert(shape.begin(), shape.end());
  Random random{seed * 0x9E3779B97F4A7C15u + 0x1234567};
  const std::vector<int64_t> all = Integers(dtype, static_cast<size_t>(t.elements()), use,
                                            {extents.begin(), extents.end()}, random);
  for (size_t i = 0; i < all.size(); ++i) {
    if (t.wide())
      t.words[i] = all[i];
    else
      t.v[i] = static_cast<double>(all[i]);
  }
  return t;
}

Result<ir::TensorValue> MadeTensor(const std::string& name, ir::DType dtype,
                                   const std::vector<int64_t>& dims,
                                   const frontend::TestInput& input, uint64_t seed,
                                   DiagSink& diags) {
  using Kind = frontend::TestInput::Kind;
  ir::TensorValue t = ir::TensorValue::Zeros(dtype, dims);
  const auto n = static_cast<size_t>(t.elements());
  Random random{seed * 0x9E3779B97F4A7C15u + 0x7654321};
  const auto number = [&](size_t i, double otherwise) {
    return i < input.numbers.size() ? input.numbers[i] : otherwise;
  };
  const auto unit = [&] { return static_cast<double>(random.Next() >> 11) * 0x1p-53; };  // [0, 1)
  std::vector<double> all(n);
  switch (input.kind) {
    case Kind::kArange:
      for (size_t i = 0; i < n; ++i) all[i] = number(0, 0) + static_cast<double>(i) * number(1, 1);
      break;
    case Kind::kPermutation:
      for (size_t i = 0; i < n; ++i) all[i] = static_cast<double>(i);
      for (size_t i = n; i > 1; --i)
        std::swap(all[i - 1], all[static_cast<size_t>(random.Next() % i)]);
      break;
    case Kind::kNormal:  // the sum of twelve: no function whose last bits differ between machines
      for (double& v : all) {
        double sum = -6;
        for (int i = 0; i < 12; ++i) sum += unit();
        v = number(0, 0) + number(1, 1) * sum;
      }
      break;
    case Kind::kUniform:
    case Kind::kSorted: {
      const bool whole = ir::IsInteger(dtype);
      const double lo = number(0, whole ? 0 : -1);
      const double hi = number(1, whole ? static_cast<double>(n) : 1);
      for (double& v : all) v = lo + (hi - lo) * unit();
      if (input.kind == Kind::kSorted) std::sort(all.begin(), all.end());
      break;
    }
    case Kind::kList:
      if (input.numbers.size() != n)
        return diags.Report(
            kTestTensor, input.at, name,
            fmt::format("has {} elements, and {} are listed", n, input.numbers.size()));
      all = input.numbers;
      break;
    case Kind::kFill: std::fill(all.begin(), all.end(), number(0, 0)); break;
    case Kind::kFile: UNREACHABLE("files are read elsewhere");
  }
  for (size_t i = 0; i < n; ++i) {
    const bool whole = ir::IsInteger(dtype);
    const double v = whole ? std::floor(all[i]) : all[i];
    // 2⁵³: what a number of the test keeps exactly
    if (whole && (std::fabs(v) > 0x1p53 ||
                  static_cast<double>(ir::WrapInt(dtype, static_cast<int64_t>(v))) != v))
      return diags.Report(kTestTensor, input.at, name,
                          fmt::format("would hold {}, which is no {}", v, ir::Spelling(dtype)));
    if (t.wide())
      t.words[i] = static_cast<int64_t>(v);
    else
      t.v[i] = dtype == ir::DType::kBool ? (v != 0 ? 1 : 0) : whole ? v : ir::Round(dtype, v);
  }
  return t;
}

}  // namespace tilec::tools
