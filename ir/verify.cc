// The verifier. Invariants, in the order they are checked:
//
//  Header (I217)
//   H1  parameter names are unique and not empty; a dim is an i64, a scalar a scalar, a tensor's
//       value has type tensor<…> of as many dims as its extents; parameters define distinct values
//   H2  names in extents and facts are parameters (not tensors) or statics
//   H3  warp level: 1 … 32 warps; tensor maps name tensor parameters, distinct dims, boxes of
//       1 … 256, an inner box of whole 16 bytes and at most the swizzle span, rank 1 … 5
//  Structure (I210)
//   S1  every block is the region of one op (the body of none); every op stands in one block and
//       knows it; every result knows its op and every argument its block
//   S2  regions are as many as the op's row says; nesting is bounded
//   S3  for, while and if end in exactly one yield; parallel, role and elect may end in one without
//       values; a yield stands nowhere else
//   S4  yields match what they feed: types of results, carried values and arguments
//   S5  at most one parallel, in the body of a tile function
//   S6  roles stand in the body of a warp function and use disjoint warps
//  Form (I211)
//   F1  operand and result counts; attributes present, of the right kind, none unknown
//   F2  attribute values in range: axes, permutations, kinds, predicates, modes, steps, bytes
//  Dominance (I213)
//   D1  an operand is a parameter, or defined above in its block or an enclosing one
//  Level (I214)
//   L1  tile functions contain no warp ops, layouts, smem, mbarriers or counters
//   L2  warp functions contain no load, store, atomic, dot, reduce, argreduce, scan, iota,
//       broadcast, reshape, transpose or parallel
//   L3  TMA copies stand inside an elect; tiles are not computed inside one
//  Types (I212)
//   T1  each op's own rule (verify_tile_types.cc, verify_warp_types.cc)
//  Layouts (I215), warp level
//   Y1  tiles of rank > 0 have a layout of their rank, whose threads are the role's
//   Y2  elementwise operands and results have one layout; broadcast, reshape, transpose and
//       reduce relate layouts so that no data moves; convert without scratch renames registers
//   Y3  mma accumulators and register operands have the accumulator's layout
//  Memory (I216), warp level
//   M1  buffers, barriers and scratch lie in launch.smem_bytes at their alignment; TMA boxes and
//       mma operands lie in their buffers
//
//  Not checked yet
//   - that buffers alive at the same time do not overlap, and that scratch overlaps none
//   - barrier phases, ring depths, fences: the event graph's business
//   - that an mma's accumulator is not touched before its wait
//   - promises of `vector` and of TensorFacts (checked at launch)
//   - that parallel stores are disjoint (the interpreter finds overlaps)
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <algorithm>
#include <set>

#include "ir/verify_internal.h"

namespace tilec::ir {
namespace verify_internal {

bool Verifier::Fail(const DiagDef& def, const Op& op, const std::string& what) {
  if (++reports_ > kMaxReports) return false;
  const char* mnemonic = Info(op.kind).mnemonic;
  DiagBuilder report = diags_.Report(def, op.at, fmt::format("`{}`: {}", mnemonic, what));
  if (!op.at.known()) report.Place(fmt::format("IR of `{}`", fn_.name));
  for (int32_t i = 0; i < fn_.ops.size(); ++i)
    if (&fn_.ops[OpId(i)] == &op)
      report.Note(fmt::format("in @{}: {}", fn_.name, PrintOp(fn_, OpId(i))));
  return false;
}

bool Verifier::FailHeader(Span at, const std::string& what) {
  if (++reports_ > kMaxReports) return false;
  DiagBuilder report = diags_.Report(kVerifyHeader, at, fmt::format("@{}: {}", fn_.name, what));
  if (!at.known()) report.Place(fmt::format("IR of `{}`", fn_.name));
  return false;
}

namespace {
bool AttrHasKind(const AttrValue& value, AttrKind kind) {
  switch (kind) {
    case AttrKind::kNone: return false;
    case AttrKind::kInt: return std::holds_alternative<int64_t>(value);
    case AttrKind::kNumber:
      return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
    case AttrKind::kInts: return std::holds_alternative<std::vector<int64_t>>(value);
    case AttrKind::kString: return std::holds_alternative<std::string>(value);
  }
  return false;
}
}  // namespace

bool Verifier::CheckForm(OpId id) {
  const Op& op = fn_.ops[id];
  const OpInfo& info = Info(op.kind);
  const int operands = static_cast<int>(op.operands.size());
  const bool many = info.max_operands() == kMany;
  if (operands < info.min_operands() || (!many && operands > info.max_operands()))
    return Fail(kVerifyForm, op,
                fmt::format("{} operands; it takes {}{}", operands, info.min_operands(),
                            many ? " or more"
                            : info.max_operands() > info.min_operands()
                                ? fmt::format(" … {}", info.max_operands())
                                : ""));
  if (info.results != kMany && static_cast<int>(op.results.size()) != info.results)
    return Fail(kVerifyForm, op,
                fmt::format("{} results; it has {}", op.results.size(), info.results));
  if (static_cast<int>(op.regions.size()) != info.regions)
    return Fail(kVerifyForm, op,
                fmt::format("{} regions; it has {}", op.regions.size(), info.regions));
  size_t found = 0;
  for (const AttrSpec& spec : info.attrs) {
    if (!spec.name) continue;
    const AttrValue* value = op.attr(spec.name);
    if (!value) {
      if (spec.optional) continue;
      return Fail(kVerifyForm, op, fmt::format("attribute `{}` is missing", spec.name));
    }
    ++found;
    if (!AttrHasKind(*value, spec.kind))
      return Fail(kVerifyForm, op,
                  fmt::format("attribute `{}` has the wrong kind of value", spec.name));
  }
  for (const AttrSpec& mark : kMarks)
    if (const AttrValue* value = op.attr(mark.name); value && info.level == OpLevel::kTile) {
      ++found;
      if (!AttrHasKind(*value, mark.kind))
        return Fail(kVerifyForm, op,
                    fmt::format("attribute `{}` has the wrong kind of value", mark.name));
    }
  if (found != op.attrs.size())
    return Fail(kVerifyForm, op, "an attribute is given twice or is not in the op's row");
  for (ValueId v : op.results) {
    if (static_cast<size_t>(v.index) >= static_cast<size_t>(fn_.values.size()))
      return Fail(kVerifyStructure, op, "a result is no value of the function");
    if (fn_.values[v].def != id || fn_.values[v].block.valid())
      return Fail(kVerifyStructure, op, "a result does not know this op as its definition");
    if (visible_[v.index]) return Fail(kVerifyStructure, op, "a result is defined twice");
  }
  return true;
}

bool Verifier::CheckOperandsVisible(OpId id) {
  const Op& op = fn_.ops[id];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueId v = op.operands[i];
    if (static_cast<size_t>(v.index) >= static_cast<size_t>(fn_.values.size()))
      return Fail(kVerifyDominance, op, fmt::format("operand {} is no value of the function", i));
    if (!visible_[v.index])
      return Fail(kVerifyDominance, op,
                  fmt::format("operand {} is not defined above, or belongs to another region", i));
  }
  return true;
}

bool Verifier::CheckTypeShape(const Op& op, const Type& t, const Scope& scope) {
  for (int64_t d : t.shape)
    if (t.kind != TypeKind::kTensor && d < 1)
      return Fail(kVerifyType, op, fmt::format("{} has an extent below 1", Show(t)));
  if (fn_.level == Level::kTile) {
    if (t.kind != TypeKind::kTile || t.layout.valid())
      return Fail(kVerifyLevel, op, fmt::format("{} is a type of the warp level", Show(t)));
    return true;
  }
  if (t.kind != TypeKind::kTile) return true;
  if (t.shape.empty())
    return t.layout.valid() ? Fail(kVerifyLayout, op, "a scalar has a layout") : true;
  if (!t.layout.valid() || t.layout.index >= fn_.layouts.size())
    return Fail(kVerifyLayout, op, fmt::format("{} has no layout", Show(t)));
  const Layout& layout = fn_.layouts[t.layout];
  if (layout.rank != t.rank())
    return Fail(kVerifyLayout, op, fmt::format("{} has a layout of rank {}", Show(t), layout.rank));
  if (layout.threads() != scope.threads)
    return Fail(kVerifyLayout, op,
                fmt::format("{} is laid out over {} threads; the role has {}", Show(t),
                            layout.threads(), scope.threads));
  return true;
}

// Rows of ops.def that a warp function may not contain; the others serve both levels.
static constexpr OpKind kTileOnly[] = {OpKind::kIota,      OpKind::kBroadcast,    OpKind::kReshape,
                                       OpKind::kTranspose, OpKind::kRearrange,    OpKind::kReduce,
                                       OpKind::kArgReduce, OpKind::kScan,         OpKind::kDot,
                                       OpKind::kLoad,      OpKind::kStore,        OpKind::kAtomic,
                                       OpKind::kParallel,  OpKind::kClusterReduce};

bool Verifier::CheckLevel(const Op& op, const Scope& scope) {
  const OpInfo& info = Info(op.kind);
  if (fn_.level == Level::kTile) {
    if (info.level == OpLevel::kWarp) return Fail(kVerifyLevel, op, "a warp op in a tile function");
  } else if (std::find(std::begin(kTileOnly), std::end(kTileOnly), op.kind) !=
             std::end(kTileOnly)) {
    return Fail(kVerifyLevel, op, "a tile op in a warp function");
  }
  for (ValueId v : op.results)
    if (!CheckTypeShape(op, T(v), scope)) return false;
  if (scope.in_elect)
    for (ValueId v : op.results)
      if (T(v).is_tile() && !T(v).is_scalar())
        return Fail(kVerifyLevel, op, "a tile is computed by one elected thread");
  for (BlockId region : op.regions)
    for (ValueId v : fn_.blocks[region].args)
      if (!CheckTypeShape(op, T(v), scope)) return false;
  return true;
}

bool Verifier::CheckYield(const Op& op, size_t region, const std::vector<ValueId>& targets,
                          size_t leading, const char* what) {
  const Block& block = fn_.blocks[op.regions[region]];
  const Op& yield = fn_.ops[block.ops.back()];
  if (yield.operands.size() != leading + targets.size())
    return Fail(kVerifyStructure, op,
                fmt::format("region {} yields {} values for {} {}", region,
                            yield.operands.size() - std::min(leading, yield.operands.size()),
                            targets.size(), what));
  for (size_t i = 0; i < targets.size(); ++i) {
    const ValueId v = yield.operands[leading + i];
    if (static_cast<size_t>(v.index) >= static_cast<size_t>(fn_.values.size()))
      return true;  // D1 reports
    if (T(v) != T(targets[i]))
      return Fail(kVerifyStructure, op,
                  fmt::format("region {} yields {} where {} {} is {}", region, Show(T(v)), what, i,
                              Show(T(targets[i]))));
  }
  return true;
}

// Called when the regions have been checked and are whole.
bool Verifier::CheckRegions(const Op& op) {
  auto same = [&](ValueId a, ValueId b, const char* what) {
    return T(a) == T(b) ||
           Fail(kVerifyStructure, op, fmt::format("{}: {} meets {}", what, Show(T(a)), Show(T(b))));
  };
  if (op.kind == OpKind::kFor) {
    const std::vector<ValueId>& args = fn_.blocks[op.regions[0]].args;
    const size_t carried = op.operands.size() - 2;
    if (args.size() != carried + 1 || op.results.size() != carried)
      return Fail(kVerifyStructure, op,
                  fmt::format("{} initial values, {} arguments, {} results", carried, args.size(),
                              op.results.size()));
    if (T(args[0]) != Type::Scalar(DType::kI64))
      return Fail(kVerifyStructure, op, "the position is not an i64");
    for (size_t i = 0; i < carried; ++i)
      if (!same(op.operands[i + 2], args[i + 1], "initial and carried value") ||
          !same(op.operands[i + 2], op.results[i], "initial value and result"))
        return false;
    return CheckYield(op, 0, op.results, 0, "results");
  }
  if (op.kind == OpKind::kWhile) {
    const std::vector<ValueId>& before = fn_.blocks[op.regions[0]].args;
    const std::vector<ValueId>& after = fn_.blocks[op.regions[1]].args;
    if (before.size() != op.operands.size() || after.size() != op.operands.size() ||
        op.results.size() != op.operands.size())
      return Fail(kVerifyStructure, op,
                  fmt::format("{} initial values, {} and {} arguments, {} results",
                              op.operands.size(), before.size(), after.size(), op.results.size()));
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!same(op.operands[i], before[i], "initial and carried value") ||
          !same(op.operands[i], after[i], "initial and carried value") ||
          !same(op.operands[i], op.results[i], "initial value and result"))
        return false;
    const Op& condition = fn_.ops[fn_.blocks[op.regions[0]].ops.back()];
    if (condition.operands.empty() || T(condition.operands[0]) != Type::Scalar(DType::kBool))
      return Fail(kVerifyStructure, op, "region 0 does not yield a bool first");
    return CheckYield(op, 0, op.results, 1, "carried values") &&
           CheckYield(op, 1, op.results, 0, "carried values");
  }
  if (op.kind == OpKind::kIf) {
    for (size_t r = 0; r < 2; ++r) {
      if (!fn_.blocks[op.regions[r]].args.empty())
        return Fail(kVerifyStructure, op, "a region has arguments");
      if (!CheckYield(op, r, op.results, 0, "results")) return false;
    }
    return true;
  }
  if (op.kind == OpKind::kParallel) {
    const std::vector<ValueId>& args = fn_.blocks[op.regions[0]].args;
    const size_t variables = op.ints("steps").size();
    if (op.operands.size() != 2 * variables || args.size() != variables)
      return Fail(kVerifyStructure, op,
                  fmt::format("{} steps, {} bounds, {} arguments", variables, op.operands.size(),
                              args.size()));
    for (ValueId v : args)
      if (T(v) != Type::Scalar(DType::kI64))
        return Fail(kVerifyStructure, op, "a variable is not an i64");
    return true;
  }
  // role, elect
  for (BlockId region : op.regions)
    if (!fn_.blocks[region].args.empty())
      return Fail(kVerifyStructure, op, "its region has arguments");
  return true;
}

void Verifier::CheckBlock(BlockId block, Scope scope) {
  const Block& b = fn_.blocks[block];
  std::vector<ValueId> defined;
  auto define = [&](ValueId v) {
    visible_[v.index] = 1;
    defined.push_back(v);
  };
  for (ValueId v : b.args) define(v);
  for (OpId id : b.ops) {
    if (reports_ >= kMaxReports) break;
    const Op& op = fn_.ops[id];
    const bool formed = CheckForm(id) && CheckOperandsVisible(id) && CheckLevel(op, scope);
    const bool typed = formed && CheckTypes(op, scope);
    if (formed && !op.regions.empty()) {
      Scope inner = scope;
      ++inner.depth;
      if (op.kind == OpKind::kRole) {
        inner.in_role = true;
        inner.threads = op.i("warps") * 32;
      }
      if (op.kind == OpKind::kElect) {
        inner.in_elect = true;
        inner.parts = op.i("parts", 1);
      }
      for (BlockId region : op.regions) CheckBlock(region, inner);
      if (typed) CheckRegions(op);
    }
    for (ValueId v : op.results)  // of a bad op too: one mistake, one report
      if (static_cast<size_t>(v.index) < visible_.size() && !visible_[v.index]) define(v);
  }
  for (ValueId v : defined) visible_[v.index] = 0;
}

// S1–S3 for the whole tree, before anything dereferences along it.
struct StructureCheck {
  const Function& fn;
  std::vector<uint8_t>& seen_ops;
  std::vector<uint8_t>& seen_blocks;
  std::string error;
  OpId culprit;

  bool Bad(OpId op, std::string what) {
    culprit = op;
    error = std::move(what);
    return false;
  }
  bool Walk(BlockId block, OpId parent, int depth, int max_depth) {
    if (static_cast<size_t>(block.index) >= seen_blocks.size())
      return Bad(parent, "a region is no block of the function");
    if (seen_blocks[block.index]++) return Bad(parent, "a block is the region of two ops");
    const Block& b = fn.blocks[block];
    if (b.parent != parent) return Bad(parent, "a region does not know the op it belongs to");
    if (depth > max_depth)
      return Bad(parent, fmt::format("regions are nested deeper than {}", max_depth));
    for (ValueId v : b.args) {
      if (static_cast<size_t>(v.index) >= static_cast<size_t>(fn.values.size()))
        return Bad(parent, "a region's argument is no value of the function");
      if (fn.values[v].block != block || fn.values[v].def.valid())
        return Bad(parent, "a region's argument does not know its block");
    }
    bool must_yield = false;
    bool may_yield = false;
    if (parent.valid()) {
      const OpKind kind = fn.ops[parent].kind;
      must_yield = IsLoop(kind) || kind == OpKind::kIf;
      may_yield = true;
    }
    for (size_t i = 0; i < b.ops.size(); ++i) {
      const OpId id = b.ops[i];
      if (static_cast<size_t>(id.index) >= seen_ops.size())
        return Bad(parent, "a block holds an op that does not exist");
      if (seen_ops[id.index]++) return Bad(id, "the op stands in two places");
      const Op& op = fn.ops[id];
      if (op.block != block) return Bad(id, "the op does not know its block");
      const bool last = i + 1 == b.ops.size();
      if (op.kind == OpKind::kYield) {
        if (!may_yield || !last) return Bad(id, "a yield ends a region and stands nowhere else");
        if (!must_yield && !op.operands.empty())
          return Bad(id, "nobody takes the values this yields");
      }
      for (BlockId region : op.regions)
        if (!Walk(region, id, depth + 1, max_depth)) return false;
    }
    if (must_yield && (b.ops.empty() || fn.ops[b.ops.back()].kind != OpKind::kYield))
      return Bad(parent, "a region does not end in a yield");
    return true;
  }
};

Result<> Verifier::Run() {
  visible_.assign(static_cast<size_t>(fn_.values.size()), 0);
  seen_ops_.assign(static_cast<size_t>(fn_.ops.size()), 0);
  seen_blocks_.assign(static_cast<size_t>(fn_.blocks.size()), 0);
  StructureCheck structure{fn_, seen_ops_, seen_blocks_, {}, {}};
  if (!structure.Walk(fn_.body, {}, 0, kMaxDepth)) {
    if (static_cast<size_t>(structure.culprit.index) < seen_ops_.size())
      Fail(kVerifyStructure, fn_.ops[structure.culprit], structure.error);
    else
      FailHeader({}, structure.error);
    return DiagSink::Propagate();
  }
  if (!fn_.blocks[fn_.body].args.empty()) FailHeader({}, "the body has arguments");
  if (CheckHeader()) {
    Scope scope;
    scope.threads = static_cast<int64_t>(fn_.launch.warps) * 32;
    CheckBlock(fn_.body, scope);
  }
  if (reports_ > 0) return DiagSink::Propagate();
  return Done();
}

}  // namespace verify_internal

Result<> Verify(const Function& fn, DiagSink& diags) {
  return verify_internal::Verifier(fn, diags).Run();
}

}  // namespace tilec::ir
