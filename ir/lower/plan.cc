// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ir/lower/bring.h"
#include "ir/lower/layout_classes.h"
#include "ir/lower/operands.h"
#include "ir/lower/read_at_once.h"
#include "ir/lower/row_runs.h"
#include "ir/lower/scalars.h"
#include "ir/lower/states.h"
#include "ir/lower/stored_over.h"
#include "ir/lower/widest_product.h"
#include "ir/lower/waits.h"
#include "ir/queries.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

class Planner {
 public:
  Planner(const Function& fn, const Target& target, int warpgroups, bool runs_ahead)
      : fn_(fn),
        target_(target),
        runs_ahead_(runs_ahead),
        order_(OpsInOrder(fn)),
        uses_(fn),
        classes_(fn) {
    plan_.warpgroups = warpgroups;
    plan_.async_proxy = target.Has("async_proxy");
  }

  LayoutPlan Run() {
    const bool free = plan_.warpgroups == 0;
    if (free) ChooseWarpgroups();
    for (OpId id : order_)
      if (fn_.ops[id].kind == OpKind::kDot) PlanDot(id);
    needed_.clear();  // the operands' plans are known now
    for (OpId id : order_) {
      const Op& op = fn_.ops[id];
      classes_.Relate(op, [&](ValueId v) { return InRegisters(v); });
      if (op.kind == OpKind::kDot && plan_.dots[id].unit != MatrixUnit::kNone &&
          Squeezed(fn_.type(op.results[0]).shape).size() == 2)
        anchors_.push_back({op.results[0], plan_.dots[id].acc});
    }
    if (free && plan_.dots.empty()) ThreadsForFamilies();
    for (const auto& [id, dot] : plan_.dots) WantRegisterOperand(id, dot);
    DecideLayouts();
    for (auto& [id, dot] : plan_.dots) PlanRegisterOperand(dot);
    for (OpId id : order_) {
      if (fn_.ops[id].kind == OpKind::kLoad) PlanLoad(id);
      if (fn_.ops[id].kind == OpKind::kStore) PlanStore(id);
    }
    StoreTogether(over_, plan_.stores);
    PlanAtomics();
    ShareLoads();
    DecideBrought(fn_, target_, runs_ahead_, &plan_);
    return std::move(plan_);
  }

 private:
  // ---- which tiles must exist in registers -------------------------------------------------
  // Where no product decides how threads hold tiles, they hold them as memory wants them.
  bool StoredTurned(const Op& op) {
    return op.kind == OpKind::kStore && StoresTransposed(fn_, op, target_) &&
           !MeetsOthers(fn_, over_, op) && std::any_of(order_.begin(), order_.end(), [&](OpId id) {
             return fn_.ops[id].kind == OpKind::kDot;
           });
  }

  bool InRegisters(ValueId v) {
    auto [it, fresh] = needed_.try_emplace(v, false);
    if (!fresh) return it->second;
    bool needed = forced_.count(v) > 0;
    for (const auto& [id, index] : uses_.of(v)) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kDot && index < 2) continue;  // decided with the operand's plan
      if (index == 1 && StoredTurned(op)) continue;        // its source is stored
      if (op.kind == OpKind::kTranspose || op.kind == OpKind::kReshape)
        needed = needed || InRegisters(op.results[0]);
      else
        needed = true;
    }
    return needed_[v] = needed;
  }

  // ---- warpgroups --------------------------------------------------------------------------
  void ChooseWarpgroups() {
    const TargetLowering& pays = target_.lowering;
    int64_t largest = 0;
    bool dots = false, threes = false, twos = false, wide = false;
    // What one product makes of another's result stays in its warpgroup's registers.
    const bool computed = std::none_of(order_.begin(), order_.end(), [&](OpId id) {
      return fn_.ops[id].kind == OpKind::kDot && IsComputed(fn_.ops[id].operands[0]);
    });
    for (OpId id : order_) {
      const Op& op = fn_.ops[id];
      for (ValueId r : op.results)
        if (fn_.type(r).is_tile() && (op.kind != OpKind::kLoad || InRegisters(r)))
          largest = std::max(largest, fn_.type(r).elements());
      if (op.kind != OpKind::kDot) continue;
      const Type& t = fn_.type(op.results[0]);
      if (!IsOnUnit(fn_, op, target_)) continue;
      dots = true;
      const int groups = WarpgroupsOfRows(t.shape[0], target_);
      threes = threes || groups == 3, twos = twos || groups == 2;
      const int64_t least = computed && IsComputed(op.operands[1]) ? target_.lowering.shared_columns
                                                                   : target_.lowering.wide_columns;
      wide = wide || (groups != 2 && t.shape[1] >= least && t.shape[1] % 16 == 0);
    }
    if (dots)
      plan_.warpgroups = OneGroupHasMore() ? 1 : twos ? 2 : threes ? 3 : wide ? 2 : 1;
    else if (largest <= pays.one_warpgroup_elements ||
             (largest <= pays.one_warpgroup_elements_at_once &&
              ReadAtOnce(fn_, pays.one_warpgroup_bytes_at_once)))
      plan_.warpgroups = 1;
    else
      plan_.warpgroups = largest <= pays.two_warpgroups_elements ||
                                 (largest <= pays.two_warpgroups_elements_at_once &&
                                  ReadAtOnce(fn_, pays.two_warpgroups_bytes_at_once))
                             ? 2
                             : 4;
  }

  // Beside a load role that cannot give its registers away, eight warps have 168 each, four have
  // all that an instruction can name: they take all accumulators, if these leave half of them.
  bool OneGroupHasMore() const {
    if (!runs_ahead_ || target_.Has("setmaxnreg")) return false;
    int64_t sums = 0;
    for (OpId id : order_) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kDot || !IsOnUnit(fn_, op, target_)) continue;
      const std::vector<int64_t>& shape = fn_.type(op.results[0]).shape;
      sums += RoundUp(shape[0], target_.unit().rows) * shape[1];
    }
    constexpr int64_t kGroupThreads = 128;  // of a warpgroup
    return sums <= kGroupThreads * (target_.limits.regs_per_thread + 1) / 2;
  }

  // Where rows lie on both sides of a transpose: few threads with whole vectors rather than many
  // with parts.
  void ThreadsForFamilies() {
    for (const Relation& r : classes_.relations()) {
      const LayoutFamily family = classes_.FamilyOf(Find(r.parent), order_);
      if (!family.turned || family.rows.size() < 2 || family.Apart()) continue;
      const auto [a, b] = family.Vectors(1);
      while (plan_.warpgroups > 1 && plan_.threads() * a * b > family.elements())
        plan_.warpgroups /= 2;
    }
  }

  // Is an operand made by threads?
  bool IsComputed(ValueId v) const {
    const Op* def = fn_.def(Without(fn_, OpKind::kTranspose, v).value);
    return def && def->kind != OpKind::kLoad;
  }

  // ---- products ----------------------------------------------------------------------------
  void PlanDot(OpId id) {
    const Op& op = fn_.ops[id];
    DotPlan dot;
    const Type& ta = fn_.type(op.operands[0]);
    const Type& tb = fn_.type(op.operands[1]);
    const int64_t m = ta.shape[0], k = ta.shape[1], n = tb.shape[1];
    dot.unit = IsOnUnit(fn_, op, target_) ? target_.matrix_unit.kind : MatrixUnit::kNone;
    dot.promote = op.i("promote");
    dot.k_padded = k;
    // A product with scales has all lanes, whatever its rows.
    const bool all_lanes = op.operands.size() > 3 && InTensorMemory(dot.unit);
    const int64_t rows = all_lanes ? std::max(m, kTensorLanes) : m;
    if (dot.unit != MatrixUnit::kNone) {
      const bool mn_major_b = MayBeMnMajor(dot.unit, tb.dtype) &&
                              !Without(fn_, OpKind::kTranspose, op.operands[1]).odd();
      dot.k_padded = StagedDepth(dot.unit, ta.dtype, k);
      const Accumulator acc = Place(dot.unit, {ta.dtype, rows, n, k, mn_major_b}, plan_.warpgroups);
      dot.split = acc.split;
      dot.acc = acc.layout;
      if (MayShareRows(op))
        dot.across =
            WarpsAcross(dot.unit, {ta.dtype, m, n, k, mn_major_b}, plan_.warpgroups, dot.split);
      if (dot.across > 1)
        dot.acc = AccumulatorOf(dot.unit, ta.dtype, m, n, plan_.warpgroups, dot.split, dot.across);
    }
    if (op.operands.size() > 3) WantScales(op, dot);
    dot.a = PlanOperand(op.operands[0], dot, /*is_a=*/true, StagedRows(dot.unit, ta.dtype, rows));
    dot.b = PlanOperand(op.operands[1], dot, /*is_a=*/false, StagedColumns(dot.unit, tb.dtype, n));
    plan_.dots[id] = std::move(dot);
  }

  // Scales are best loaded as tmem_scales, or the product, wants them.
  void WantScales(const Op& dot, const DotPlan& plan) {
    for (size_t i : {3, 4}) {
      const Stripped bare = Without(fn_, OpKind::kTranspose, dot.operands[i]);
      const std::vector<int64_t>& shape = fn_.type(bare.value).shape;
      const int rows_dim = bare.odd() == (i == 4) ? 0 : 1;
      if (shape.size() != 2 || shape[0] == 1 || shape[1] == 1) continue;
      const int64_t rows = shape[static_cast<size_t>(rows_dim)],
                    scales = shape[static_cast<size_t>(1 - rows_dim)];
      wanted_.push_back(
          {bare.value, InTensorMemory(plan.unit)
                           ? ScalesLayout(rows, scales, rows_dim, plan_.warpgroups)
                           : ScalesLayout({i == 3, rows, scales, rows_dim}, plan_.warpgroups,
                                          plan.split, plan.across)});
    }
  }

  // May several warps hold parts of a row of the accumulator? Not where rows are reduced, or where
  // what threads make of one product is the left operand of another: both want whole rows.
  bool MayShareRows(const Op& dot) const {
    return !IsComputed(dot.operands[0]) && std::none_of(order_.begin(), order_.end(), [&](OpId id) {
      const Op& op = fn_.ops[id];
      const bool reduces = op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce;
      return (reduces && fn_.type(op.operands[0]).rank() > 1) ||
             (op.kind == OpKind::kDot && IsComputed(op.operands[0]));
    });
  }

  // `outer`: rows (M or N) the instructions touch.
  OperandPlan PlanOperand(ValueId v, const DotPlan& dot, bool is_a, int64_t outer) {
    OperandPlan plan;
    // A is [M, K]: its natural (K-major) buffer is itself. B is [K, N]: the natural buffer is Bᵀ,
    // so an untransposed B is MN-major.
    const Stripped bare = Without(fn_, OpKind::kTranspose, v);
    const bool mn_major = bare.odd() == is_a;
    plan.source = bare.value;
    plan.trans = mn_major;
    const Type& type = fn_.type(plan.source);
    const bool k_major_only = dot.unit != MatrixUnit::kNone && !MayBeMnMajor(dot.unit, type.dtype);
    const Op* def = fn_.def(plan.source);
    if (mn_major && k_major_only) {
      plan.trans = false;
      plan.store_transposed = true;
    } else if (def && def->kind == OpKind::kLoad && type.rank() == 2) {
      plan.how = OperandPlan::How::kBuffer;
    }
    int64_t rows = type.shape[0], cols = type.shape[1];
    if (plan.store_transposed) std::swap(rows, cols);
    BufferNeed need;
    need.tile_rows = rows;
    need.tile_cols = cols;
    need.plain = dot.unit == MatrixUnit::kNone;
    if (dot.unit != MatrixUnit::kNone) {
      need.cols_contracted = !plan.trans;
      need.rows_contracted = plan.trans;
      need.rows = plan.trans ? dot.k_padded : outer;
      need.cols = plan.trans ? outer : dot.k_padded;
      if (!is_a && plan.trans && dot.split == WgSplit::kN) need.col_piece = cols / plan_.warpgroups;
    } else {
      need.rows = rows;
      need.cols = cols;
    }
    if (plan.how == OperandPlan::How::kBuffer) {
      const OpId load = fn_.values[plan.source].def;
      auto [it, fresh] = needs_.try_emplace(load, need);
      if (!fresh && !it->second.Merge(need)) {
        // One product wants a swizzled, the other a plain buffer: the second gets a copy.
        plan.how = OperandPlan::How::kStore;
      }
    }
    if (plan.how != OperandPlan::How::kBuffer) {
      plan.smem = need.Layout(type.dtype);
      plan.zero_padding = need.NeedsZero(type.dtype);
      forced_.insert(plan.source);
    }
    return plan;
  }

  // Do threads make the left operand, as it is multiplied?
  static bool MadeByThreads(const DotPlan& dot) {
    return dot.unit != MatrixUnit::kNone && dot.a.how == OperandPlan::How::kStore && !dot.a.trans &&
           !dot.a.store_transposed;
  }

  // How it would lie if the instruction took it from registers.
  std::optional<Layout> RegisterOperand(const DotPlan& dot) const {
    if (!MadeByThreads(dot)) return {};
    return LeftInRegisters(dot.unit, fn_.type(dot.a.source), plan_.warpgroups, dot.split);
  }

  // What is computed from loaded tiles alone is loaded so that it need not go through shared memory
  // again: for sums that a loop carries, whose products are awaited together anyway, and where it
  // is decoded, which is more than the product waits for.
  void WantRegisterOperand(OpId id, const DotPlan& dot) {
    const bool wants = AddsUp(fn_, fn_.ops[id]) || DecodedByThreads(fn_, dot.a.source);
    if (!wants || dot.split != WgSplit::kM ||
        fn_.type(dot.a.source).shape[0] % Info(dot.unit).rows != 0)
      return;
    if (const std::optional<Layout> layout = RegisterOperand(dot))
      wanted_.push_back({dot.a.source, *layout});
  }

  // P of attention, too: a 16-bit tile in the accumulator layout feeds the product as it is.
  void PlanRegisterOperand(DotPlan& dot) {
    if (StoredToTensorMemory(dot)) dot.a.how = OperandPlan::How::kTensor;
    const auto it = plan_.layouts.find(dot.a.source);
    if (MadeByThreads(dot) && it != plan_.layouts.end() &&
        BecomesLeft(dot.unit, fn_.type(dot.a.source), it->second, plan_.warpgroups, dot.split))
      dot.a.how = OperandPlan::How::kRegister;
  }

  // Where a unit reads its left operand from tensor memory, threads that have its rows put them
  // there.
  bool StoredToTensorMemory(const DotPlan& dot) const {
    const OperandPlan& a = dot.a;
    if (!MadeByThreads(dot) || dot.promote > 0) return false;
    const Type& tile = fn_.type(a.source);
    const auto layout = plan_.layouts.find(a.source);
    return 8 * ByteSize(tile.dtype) == Info(dot.unit).left_tensor_bits &&
           tile.shape[1] == dot.k_padded && layout != plan_.layouts.end() &&
           SplitOfLanes(dot.unit, tile, layout->second, plan_.warpgroups).has_value();
  }

  // ---- layouts (layout_classes.h) ------------------------------------------------------------
  bool IsTile(ValueId v) const { return classes_.IsTile(v); }
  ValueId Find(ValueId v) { return classes_.Find(v); }

  void DecideLayouts() {
    std::vector<ValueId> tiles;
    for (int32_t i = 0; i < fn_.values.size(); ++i)
      if (IsTile(ValueId(i))) tiles.push_back(ValueId(i));
    std::map<ValueId, Layout> decided;
    for (const auto& [value, layout] : anchors_) decided.try_emplace(Find(value), layout);
    // Classes, highest rank first, then program order.
    std::map<ValueId, std::vector<ValueId>> members;
    for (ValueId v : tiles) members[Find(v)].push_back(v);
    std::vector<ValueId> roots;
    for (const auto& [root, list] : members) roots.push_back(root);
    auto rank = [&](ValueId v) { return Squeezed(fn_.type(v).shape).size(); };
    std::stable_sort(roots.begin(), roots.end(),
                     [&](ValueId a, ValueId b) { return rank(a) > rank(b); });
    // Permutations of decided classes of equal rank may come in any order: look until settled.
    const auto permute = [&] {
      for (bool changed = true; changed;) {
        changed = false;
        for (const Relation& r : classes_.relations()) {
          if (r.keep.size() != rank(r.parent)) continue;
          changed = Derive(r, decided) || changed;
        }
      }
    };
    permute();
    for (const auto& [value, layout] : wanted_)
      if (decided.try_emplace(Find(value), layout).second) operand_classes_.insert(Find(value));
    permute();
    classes_.FollowReshapes(order_, &decided, &operand_classes_);
    for (ValueId root : roots) {
      if (decided.count(root)) continue;
      bool derived = false;
      for (const Relation& r : classes_.relations())
        if (!derived && Find(r.child) == root) derived = Derive(r, decided);
      if (derived) continue;
      if (const LayoutFamily family = classes_.FamilyOf(root, order_); family.turned) {
        const Layout layout = family.Apart() ? Layout() : family.Decide(plan_.threads());
        for (const auto& [member, dims] : family.classes)
          decided.try_emplace(member, family.Apart()
                                          ? DefaultLayout(members[member], members[member])
                                          : KeepDims(layout, dims));
        continue;
      }
      // Vectors along the last dim are read as the tiles they are broadcast to are laid out.
      std::vector<ValueId> read = members[root];
      for (const Relation& r : classes_.relations())
        if (Find(r.parent) == root && !r.keep.empty() &&
            r.keep.back() + 1 == static_cast<int>(rank(r.parent)))
          read.insert(read.end(), members[Find(r.child)].begin(), members[Find(r.child)].end());
      decided[root] = DefaultLayout(members[root], read);
    }
    for (ValueId v : tiles)
      if (Exists(v)) plan_.layouts[v] = decided[Find(v)];
  }

  // Loads that only products read, and the transposes in between, never come into registers.
  bool Exists(ValueId v) {
    const Op* def = fn_.def(v);
    const bool optional = def && (def->kind == OpKind::kLoad || def->kind == OpKind::kTranspose ||
                                  def->kind == OpKind::kReshape);
    return !optional || InRegisters(v);
  }

  bool Derive(const Relation& r, std::map<ValueId, Layout>& decided) {
    const ValueId child = Find(r.child), parent = Find(r.parent);
    auto it = decided.find(parent);
    if (decided.count(child) || it == decided.end()) return false;
    decided[child] =
        r.width > 0 ? ColumnsLayout(it->second, r.width) : KeepDims(it->second, r.keep);
    return true;
  }

  // Rows that are reduced and begin at odd places, whatever is accessed of them as runs.
  std::optional<Layout> LayoutOfRuns(const std::vector<ValueId>& members) const {
    const std::vector<int64_t> shape = Squeezed(fn_.type(members.front()).shape);
    if (!plan_.dots.empty() || shape.size() != 2) return std::nullopt;
    bool reduced = false, odd = false, runs = true;
    for (ValueId v : members) {
      const Type& type = fn_.type(v);
      const auto note = [&](OpId id) {
        runs = runs && MayRun(fn_, id, RunLimits(target_));
        odd = odd || AccessLimit(fn_, fn_.ops[id]) * ByteSize(type.dtype) < kAccessBytes;
      };
      const Op* def = fn_.def(v);
      if (def && def->kind == OpKind::kLoad) note(fn_.values[v].def);
      for (const auto& [id, index] : uses_.of(v)) {
        const Op& op = fn_.ops[id];
        if (op.kind == OpKind::kStore && index == 1) note(id);
        runs = runs && op.kind != OpKind::kAtomic;
        reduced = reduced || ((op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce) &&
                              op.i("axis") + 1 == type.rank());
      }
    }
    return reduced && odd && runs ? RowsLayout(shape, plan_.threads()) : std::nullopt;
  }

  // Does the machine add elements that lie in a row at once?
  bool AddsTogether(const Op& op) const {
    return op.kind == OpKind::kAtomic && !Fetches(op) && op.s("kind") == "add" &&
           fn_.type(op.operands[1]).dtype == DType::kF32 && target_.Has("vector_atomics");
  }

  // `read`: the members, and what is read as they are laid out.
  Layout DefaultLayout(const std::vector<ValueId>& members, const std::vector<ValueId>& read) {
    if (const std::optional<Layout> rows = LayoutOfRuns(members)) return *rows;
    if (const auto state = StatesLayout(fn_, uses_, members, plan_.threads())) return *state;
    const std::vector<int64_t> shape = Squeezed(fn_.type(members.front()).shape);
    int64_t elements = 1;
    for (int64_t d : shape) elements *= d;
    // Not so wide that threads stay idle, and only whole vectors.
    std::vector<const Op*> accesses;
    for (ValueId v : read) {
      const Op* def = fn_.def(v);
      if (def && def->kind == OpKind::kLoad) accesses.push_back(def);
      for (const auto& [id, index] : uses_.of(v))
        if (index == 1 && (fn_.ops[id].kind == OpKind::kStore || AddsTogether(fn_.ops[id])))
          accesses.push_back(&fn_.ops[id]);
    }
    int64_t vector = AccessVector(RowAccesses(fn_, accesses, RunLimits(target_)));
    // What is written for a product goes 16 bytes at a time: more of a thread's in a row would lie
    // in the same banks as the next panel's.
    for (ValueId v : members)
      if (forced_.count(v)) vector = std::min(vector, kAccessBytes / ByteSize(fn_.type(v).dtype));
    while (vector > 1 && (shape.back() % vector != 0 || elements < vector * plan_.threads()))
      vector /= 2;
    return BlockedLayout(shape, vector, plan_.threads());
  }

  void PlanLoad(OpId id) {
    const Op& op = fn_.ops[id];
    const ValueId result = op.results[0];
    LoadPlan load;
    load.registers = InRegisters(result);
    const Type& type = fn_.type(result);
    auto need = needs_.find(id);
    std::optional<TileAccess> access = TmaAccess(fn_, op, target_);
    if (need != needs_.end()) {
      load.buffer = true;
      load.smem = need->second.Layout(type.dtype);
      load.zero_padding = need->second.NeedsZero(type.dtype);
      load.tma = access && need->second.TmaFits(type.dtype);
      const bool free = !load.tma && !need->second.plain;
      if (const auto copy = ThreadCopyAccess(fn_, op, target_); free && copy)
        access = copy->tile, load.chunk = copy->bytes;
      load.threads = free && !load.chunk && runs_ahead_ && MayBeBrought(fn_, op, target_);
      load.tma = load.tma || load.chunk || load.threads;
    } else if (const std::optional<SmemLayout> smem = OperandLayout(result); access && smem) {
      load.buffer = load.tma = true;
      load.smem = *smem;
    } else if (access && type.rank() == 2 &&
               (type.elements() >= target_.lowering.staged_elements || type.shape[0] == 1) &&
               (IsAccumulator(result) || (runs_ahead_ && InLoop(fn_, id) && HasProducts()))) {
      BufferNeed plain{type.shape[0], type.shape[1], type.shape[0], type.shape[1]};
      plain.plain = type.shape[0] == 1;  // swizzled, it would take eight rows' room
      load.buffer = load.tma = plain.TmaFits(type.dtype);
      load.smem = plain.Layout(type.dtype);
    } else if (const auto row = RowCopyAccess(fn_, op, target_);
               row && !access && runs_ahead_ && InLoop(fn_, id) && HasProducts()) {
      load.buffer = load.tma = true;
      access = row->tile, load.chunk = row->bytes, load.smem = RowLayout(type);
    }
    if (load.tma && !load.threads) load.row_dim = access->row_dim, load.col_dim = access->col_dim;
    plan_.loads[id] = load;
  }

  // A tile that register operands are made of: swizzled, for eight rows are read at a time.
  std::optional<SmemLayout> OperandLayout(ValueId v) {
    const Type& type = fn_.type(v);
    if (type.rank() != 2 || type.elements() < target_.lowering.staged_elements ||
        !operand_classes_.count(Find(v)))
      return {};
    return StagingLayout(type);
  }

  // Equal loads of one block share a buffer: the first brings the tile, the others read it again.
  // What a pass keeps there and TMA cannot bring (a row of odd length, or filled with −∞) the
  // threads put there that read it.
  void ShareLoads() {
    std::map<std::tuple<BlockId, std::vector<ValueId>, std::string, std::vector<int64_t>>, OpId>
        first;
    for (OpId id : order_) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kLoad) continue;
      const LoadPlan& load = plan_.loads[id];
      const Type& type = fn_.type(op.results[0]);
      const bool kept = op.attr("kept") != nullptr;
      if (load.buffer || !load.registers ||
          (type.elements() < target_.lowering.staged_elements && !kept))
        continue;
      const std::optional<TileAccess> access = TmaAccess(fn_, op, target_);
      const std::optional<SmemLayout> smem = RereadLayout(type);
      if (!smem || InLoop(fn_, id) || (!access && (!kept || type.shape[0] != 1))) continue;
      const auto [it, fresh] =
          first.try_emplace({op.block, op.operands, op.s("modes"), op.ints("sizes")}, id);
      if (fresh) continue;
      LoadPlan& leader = plan_.loads[it->second];
      leader.buffer = true;
      leader.tma = access.has_value();
      leader.kept = kept;
      leader.smem = *smem;
      if (access) leader.row_dim = access->row_dim, leader.col_dim = access->col_dim;
      plan_.loads[id].shares = it->second;
    }
  }
  bool HasProducts() const {
    return std::any_of(plan_.dots.begin(), plan_.dots.end(),
                       [](const auto& dot) { return dot.second.unit != MatrixUnit::kNone; });
  }

  bool IsAccumulator(ValueId v) {
    for (const auto& [value, layout] : anchors_)
      if (Find(value) == Find(v)) return true;
    return false;
  }

  void PlanStore(OpId id) {
    const Op& op = fn_.ops[id];
    StorePlan store;
    const Type& type = fn_.type(op.operands[1]);
    const std::optional<TileAccess> access = TmaAccess(fn_, op, target_);
    store.transposed = StoredTurned(op);
    const int64_t least =
        store.transposed ? target_.lowering.turned_elements : target_.lowering.staged_elements;
    if (access && type.rank() == 2 && (store.transposed || IsAccumulator(op.operands[1])) &&
        type.elements() >= least && !OverOthersInTurns(fn_, over_, id)) {
      if (std::optional<SmemLayout> smem = StagingLayout(type)) {
        store = {true, store.transposed, *smem, access->row_dim, access->col_dim};
      }
    }
    plan_.stores[id] = store;
  }

  // TMA combines tiles with a tensor if it makes all accesses to it, all of one kind:
  // nothing orders what it does after what threads do, nor one copy after another.
  void PlanAtomics() {
    std::map<ValueId, std::map<OpId, StorePlan>> found;  // by tensor
    std::set<ValueId> others;                            // tensors accessed in any other way
    std::map<ValueId, std::string> kinds;
    for (OpId id : order_) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kLoad || op.kind == OpKind::kStore) others.insert(op.operands[0]);
      if (op.kind != OpKind::kAtomic) continue;
      const ValueId tensor = op.operands[0];
      const Type& type = fn_.type(op.operands[1]);
      const std::optional<TileAccess> access = TmaAccess(fn_, op, target_);
      const std::optional<SmemLayout> smem =
          access && type.rank() == 2 && plan_.layouts.count(op.operands[1]) &&
                  type.elements() >= target_.lowering.staged_elements &&
                  EngineCombines(op.s("kind"), type.dtype) && !Fetches(op)
              ? StagingLayout(type)
              : std::nullopt;
      if (smem && kinds.try_emplace(tensor, op.s("kind")).first->second == op.s("kind"))
        found[tensor][id] = {true, false, *smem, access->row_dim, access->col_dim};
      else
        others.insert(tensor);
    }
    for (const auto& [tensor, atomics] : found)
      if (!others.count(tensor)) plan_.stores.insert(atomics.begin(), atomics.end());
  }

  const Function& fn_;
  const Target& target_;
  bool runs_ahead_;
  LayoutPlan plan_;
  const std::vector<OpId> order_;
  const Uses uses_;
  const StoresOver over_ = StoredOver(fn_);
  std::map<ValueId, bool> needed_;
  std::set<ValueId> forced_;  // product operands that pass through registers
  LayoutClasses classes_;
  std::vector<std::pair<ValueId, Layout>> anchors_, wanted_;  // wanted: where nothing else decides
  std::set<ValueId> operand_classes_;                         // operands that lie so
  std::map<OpId, BufferNeed> needs_;
};

}  // namespace

LayoutPlan MakePlan(const Function& fn, const Target& target, int warpgroups, bool runs_ahead) {
  return Planner(fn, target, warpgroups, runs_ahead).Run();
}

}  // namespace tilec::ir
