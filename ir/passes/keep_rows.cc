// Rows that several loops read in chunks, one loop behind the other, are read from memory once.
//
//     for c in tiles(C, BC) { … X[r, c] … }        (the statistics of a row)
//     for c in tiles(C, BC) { … X[r, c] … }        (what is made of them)
//
// Where C is known, so is the number n of chunks. If n chunks of all tensors that are read again
// find room on the chip, the loops are unrolled and all chunks are loaded in front of the first:
//   * into registers, if a thread holds few of them: later loops read what the first one had;
//   * else into shared memory: later loops load "again" (mark `kept`: which time), and the lowering
//     lets equal loads of a block share the buffer that the first of them fills: by TMA, or, of one
//     row that it cannot bring (of odd length, filled with −∞), by the threads that read it again.
// Else the loops stay as they are, and what they read again comes from memory again.
//
// How many rows a tile has is the author's choice, and often too many for a row to be kept. Rows
// that have nothing to do with each other may be divided among more CTAs: the grid's step along
// them becomes smaller (Narrowable says when that changes nothing). That several CTAs find room on
// an SM matters more than many rows in each: while one waits for memory, others compute.
//
// Only tensors that the kernel does not write: the same load then gives the same bits whenever it
// is made. Only programs without products, whose CTAs come and go.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/lower/diagnostics.h"
#include "ir/lower/operands.h"
#include "ir/lower/slides.h"
#include "ir/passes/copies_first.h"
#include "ir/passes/loops_of_rows.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/row_threads.h"
#include "ir/queries.h"
#include "ir/row_classes.h"

namespace tilec::ir {
namespace {

constexpr int64_t kMostUnrolledOps = 1200;  // of all that are unrolled
constexpr int64_t kBufferAlign = 1024;
// Tiles of a row that threads put into shared memory, where no CTAs share it. In more and smaller
// ones, each reduced by itself, and in parts of a cluster rows are faster read again
// (docs/perf_log.md, 2026-11-29, rows).
constexpr int64_t kMostPut = 6;

using Kept = KeptLoad;
using Loops = RowLoops;

// How a row is kept.
struct Choice {
  int64_t rows = 0;  // of a tile
  bool registers = false;
  int64_t bytes = 0;  // of all kept tiles
};

class RowKeeper {
 public:
  RowKeeper(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  void Grid(OpId grid) {
    for (Loops& loops : FindLoopsOfRows(fn_, fn_.ops[grid].regions[0])) {
      const Rows rows = RowsOf(grid, loops);
      const std::optional<Choice> choice = Choose(loops, rows);
      if (!choice) continue;
      if (fn_.ops[grid].i("cluster", 1) > 1) ReadEarly(loops, *choice);
      Say(loops, rows, *choice);
      if (choice->rows < rows.extent) Narrow(grid, rows, choice->rows);
      Unroll(fn_.ops[grid].regions[0], loops, *choice);
      ++cx_.changes;
    }
  }

 private:
  // The dim of the grid along which rows may be divided; extent 1: there is none.
  struct Rows {
    size_t dim = 0;
    int64_t extent = 1;
    std::optional<RowClasses> classes;
    std::set<OpId> ends;  // scalars that say where a tile ends
  };

  // ---- rows ----------------------------------------------------------------------------------
  Rows RowsOf(OpId grid, const Loops& loops) const {
    const std::vector<ValueId>& args = fn_.blocks[fn_.ops[grid].regions[0]].args;
    for (size_t d = 0; d < args.size(); ++d) {
      Rows rows;
      rows.dim = d;
      rows.classes.emplace(fn_, args[d]);
      if (!rows.classes->found() || rows.classes->extent() != fn_.ops[grid].ints("steps")[d])
        continue;
      rows.extent = rows.classes->extent();
      const bool all = std::all_of(loops.kept.begin(), loops.kept.end(), [&](const Kept& k) {
        return rows.classes->DimOf(fn_.ops[k.in.begin()->second].results[0]) >= 0;
      });
      if (all && Narrowable(grid, rows)) return rows;
    }
    return {};
  }

  // May the grid step by fewer rows? The position may say nothing but where rows begin, whatever is
  // written must be rows (of a tensor always along the same dim, and never read), and nothing may
  // look along them or number them.
  bool Narrowable(OpId grid, Rows& rows) const {
    const ValueId position = fn_.blocks[fn_.ops[grid].regions[0]].args[rows.dim];
    const ValueId bound = fn_.ops[grid].operands[2 * rows.dim + 1];
    const std::vector<OpId> ops = OpsInOrder(fn_);
    std::set<std::pair<OpId, size_t>> fine;  // uses of the position, and of where a tile ends
    std::map<ValueId, size_t> written;       // along which dim, by tensor
    for (OpId id : ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kPrint || op.kind == OpKind::kAssert) return false;
      if (op.kind == OpKind::kParallel && id != grid) return false;
      if (op.kind == OpKind::kIota && rows.classes->DimOf(op.results[0]) >= 0) return false;
      const bool store = op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
      if (op.kind != OpKind::kLoad && !store) continue;
      const ValueId tile = store ? op.operands[1] : op.results[0];
      const int own = rows.classes->DimOf(tile);
      if (store ? own < 0 : !IsReadOnlyLoad(fn_, op)) return false;
      size_t operand = store ? 2 : 1;
      int dim = 0;
      const std::string& modes = op.s("modes");
      for (size_t d = 0; d < modes.size(); ++d) {
        const char mode = modes[d];
        if (dim == own && mode == 'r') {
          if (store && written.try_emplace(op.operands[0], d).first->second != d) return false;
          if (op.operands[operand] != position) return false;
          fine.insert({id, operand});
          if (store && !Ends(op.operands[operand + 1], position, bound, rows, fine)) return false;
          if (store) fine.insert({id, operand + 1});
        } else if ((dim == own && mode == 'g' && store) || mode == 'p') {
          return false;  // rows may meet; pairs move together
        }
        operand += OperandsOf(mode, store);
        if (TakesDim(mode)) ++dim;
      }
    }
    for (OpId id : ops)
      for (size_t k = 0; k < fn_.ops[id].operands.size(); ++k) {
        const ValueId v = fn_.ops[id].operands[k];
        const bool counts = v == position || rows.ends.count(fn_.values[v].def) > 0;
        if (counts && fine.count({id, k}) == 0) return false;
      }
    return true;
  }
  // min(position + step, bound)
  bool Ends(ValueId v, ValueId position, ValueId bound, Rows& rows,
            std::set<std::pair<OpId, size_t>>& fine) const {
    const Op* least = fn_.def(v);
    if (!least || least->kind != OpKind::kMin || least->operands[1] != bound) return false;
    const Op* sum = fn_.def(least->operands[0]);
    if (!sum || sum->kind != OpKind::kAdd || sum->operands[0] != position) return false;
    const int64_t* by = IntConstantOf(fn_, sum->operands[1]);
    if (!by || *by != rows.extent) return false;
    rows.ends.insert(fn_.values[v].def);
    rows.ends.insert(fn_.values[least->operands[0]].def);
    fine.insert({fn_.values[v].def, 0});
    fine.insert({fn_.values[least->operands[0]].def, 0});
    return true;
  }

  void Narrow(OpId grid, const Rows& rows, int64_t to) {
    for (int32_t i = 0; i < fn_.values.size(); ++i)
      if (const int dim = rows.classes->DimOf(ValueId(i)); dim >= 0)
        fn_.values[ValueId(i)].type.shape[static_cast<size_t>(dim)] = to;
    for (OpId id : OpsInOrder(fn_)) {
      Op& op = fn_.ops[id];
      const bool store = op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
      if (op.kind != OpKind::kLoad && !store) continue;
      const int own = rows.classes->DimOf(store ? op.operands[1] : op.results[0]);
      std::vector<int64_t> sizes = op.ints("sizes");
      int dim = 0;
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (op.s("modes")[d] == 's') continue;
        if (dim++ == own) sizes[d] = to;
      }
      op.set("sizes", std::move(sizes));
    }
    for (OpId id : rows.ends) {  // tiles end earlier
      if (fn_.ops[id].kind != OpKind::kAdd) continue;
      RebuildBlock(fn_, fn_.ops[id].block, [&](OpId at, std::vector<OpId>& out) {
        if (at == id) {
          Builder b(fn_, fn_.ops[id].block);
          b.SetSpan(fn_.ops[id].at);
          const ValueId by = b.Int(to);
          out.push_back(fn_.values[by].def);
          fn_.ops[id].operands[1] = by;
        }
        out.push_back(at);
      });
    }
    std::vector<int64_t> steps = fn_.ops[grid].ints("steps");
    steps[rows.dim] = to;
    fn_.ops[grid].set("steps", std::move(steps));
  }

  // ---- what it costs -------------------------------------------------------------------------
  std::optional<Choice> Choose(const Loops& loops, const Rows& rows) const {
    int64_t ops = 0, largest = 0;
    for (size_t i = 0; i < loops.ids.size(); ++i)
      for (OpId id : fn_.blocks[loops.body(fn_, i)].ops) {
        ++ops;
        for (ValueId r : fn_.ops[id].results)
          if (fn_.type(r).is_tile()) largest = std::max(largest, fn_.type(r).elements());
      }
    if (ops * loops.turns > kMostUnrolledOps) return std::nullopt;
    const TargetLowering& lowering = cx_.target.lowering;
    const int64_t threads_hold = lowering.row_registers;
    const int64_t wanted = cx_.target.RowBytes(lowering.row_ctas_wanted);
    const int64_t most = cx_.target.RowBytes(lowering.row_ctas_least);
    std::optional<Choice> last;
    for (int64_t to = rows.extent; to >= 1; --to) {
      if (rows.extent % to != 0) continue;
      const auto share = [&](int64_t n) { return n / rows.extent * to; };
      int64_t elements = 0, bytes = 0, placed = 0;
      bool fits = true;
      for (const Kept& k : loops.kept) {
        const Op& load = fn_.ops[k.in.begin()->second];
        const Type& tile = fn_.type(load.results[0]);
        const int64_t size = share(tile.elements()) * ByteSize(tile.dtype);
        elements += loops.turns * share(tile.elements());
        bytes += loops.turns * size;
        placed += loops.turns * RoundUp(size, kBufferAlign);
        fits = fits && Stageable(load, rows, to);
      }
      const int64_t threads = ThreadsFor(share(largest), lowering);
      if (elements <= threads_hold * threads) return Choice{to, true, bytes};
      // What the copy engine cannot bring would come from memory again: of a row that a CTA has
      // alone threads hold half as much more.
      if (!fits && !(slides_ && !loops.base.valid()) && to == 1 &&
          elements <= (threads_hold + threads_hold / 2) * threads)
        return Choice{to, true, bytes};
      fits = fits || (!slides_ && to == 1 && loops.turns <= kMostPut && !loops.base.valid() &&
                      ByThreads(loops));
      if (fits && placed <= wanted) return Choice{to, false, placed};
      if (fits && placed <= most) last = Choice{to, false, placed};
    }
    return last;
  }

  // Can TMA bring the tile, if it has so many rows? One gathered row is a range.
  bool Stageable(Op load, const Rows& rows, int64_t to) const {
    Type tile = fn_.type(load.results[0]);
    if (rows.classes)
      if (const int dim = rows.classes->DimOf(load.results[0]); dim >= 0)
        tile.shape[static_cast<size_t>(dim)] = to;
    std::string modes = load.s("modes");
    if (to == 1 && rows.classes) std::replace(modes.begin(), modes.end() - 1, 'g', 'r');
    load.set("modes", modes);
    return TmaAccess(fn_, load, cx_.target) && RereadLayout(tile);
  }

  // Can threads put pieces of one row into buffers, as they lie there? Elsewhere than in products'
  // programs threads alone write them, and each reads what it wrote.
  bool ByThreads(const Loops& loops) const {
    return std::all_of(loops.kept.begin(), loops.kept.end(), [&](const Kept& k) {
      const Op& load = fn_.ops[k.in.begin()->second];
      Type tile = fn_.type(load.results[0]);
      if (tile.rank() != 2 || load.s("modes").find('g') != std::string::npos) return false;
      tile.shape[0] = 1;
      return RereadLayout(tile).has_value();
    });
  }

  // CTAs that share a row wait for each other between its loops. What a loop behind that reads of
  // vectors is on its way meanwhile, where registers hold it beside the row.
  void ReadEarly(Loops& loops, const Choice& choice) const {
    int64_t held = 0, largest = 0;
    for (const std::vector<Kept>* some : {&loops.kept, &loops.vectors})
      for (const Kept& k : *some) {
        const int64_t elements = fn_.type(fn_.ops[k.in.begin()->second].results[0]).elements();
        held += loops.turns * elements;
        largest = std::max(largest, elements);
      }
    const TargetLowering& lowering = cx_.target.lowering;
    const int64_t most = lowering.row_registers + lowering.row_registers / 8;
    if (!choice.registers || held > most * ThreadsFor(largest, lowering)) return;
    loops.kept.insert(loops.kept.end(), loops.vectors.begin(), loops.vectors.end());
  }

  // Vectors that all rows share.
  bool ReadsVectors() const {
    return std::any_of(fn_.ops.begin(), fn_.ops.end(), [&](const Op& op) {
      return op.kind == OpKind::kLoad && fn_.type(op.operands[0]).rank() == 1;
    });
  }

  void Say(const Loops& loops, const Rows& rows, const Choice& choice) const {
    std::string tensors;
    for (const Kept& k : loops.kept) {
      if (k.early) continue;
      const Param* p = fn_.param(fn_.ops[k.in.begin()->second].operands[0]);
      tensors += (tensors.empty() ? "`" : ", `") + p->name + "`";
    }
    cx_.diags.Report(lower_diag::kRowsKept, fn_.ops[loops.ids.back()].at, tensors, loops.turns,
                     choice.registers ? "registers" : "shared memory", choice.bytes,
                     choice.rows < rows.extent ? fmt::format(", tiles of {} rows in place of {}",
                                                             choice.rows, rows.extent)
                                               : "");
  }

  // ---- unrolling -----------------------------------------------------------------------------
  void Unroll(BlockId block, const Loops& loops, const Choice& choice) {
    Forwarding forward(fn_);
    std::map<std::pair<size_t, int64_t>, ValueId> leaders;  // by kept tile and iteration
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      ReplaceOperands(fn_, id, forward);
      const auto at = std::find(loops.ids.begin(), loops.ids.end(), id);
      if (at == loops.ids.end()) {
        out.push_back(id);
        return;
      }
      const auto i = static_cast<size_t>(at - loops.ids.begin());
      Builder b(fn_, block);
      b.SetSpan(fn_.ops[id].at);
      for (int64_t turn = 0; turn < loops.turns; ++turn)
        for (size_t k = 0; k < loops.kept.size(); ++k)
          if (const auto [of, load] = *loops.kept[k].in.begin();
              loops.kept[k].early ? i == 0 : of == i)
            leaders[{k, turn}] = Lead(b, loops, of, load, turn, choice, out);
      Turns(b, loops, i, choice, leaders, forward, out);
    });
  }
  ValueId Added(ValueId v, std::vector<OpId>& out) {
    out.push_back(fn_.values[v].def);
    return v;
  }

  ValueId Position(Builder& b, const Loops& loops, int64_t turn, std::vector<OpId>& out) {
    const ValueId by = Added(b.Int(loops.lo + turn * loops.step), out);
    return loops.base.valid() ? Added(b.Binary(OpKind::kAdd, loops.base, by), out) : by;
  }

  // The first load of a kept tile.
  ValueId Lead(Builder& b, const Loops& loops, size_t i, OpId id, int64_t turn,
               const Choice& choice, std::vector<OpId>& out) {
    const Op load = fn_.ops[id];
    b.SetSpan(load.at);
    std::vector<ValueId> operands = load.operands;
    std::string modes = load.s("modes");
    const ValueId position = Position(b, loops, turn, out);
    for (ValueId& v : operands)
      if (loops.IsPosition(fn_, i, v)) v = position;
    if (load.i("has_fill"))
      if (const Op* fill = fn_.def(operands.back()); fill && fill->kind == OpKind::kConstant)
        operands.back() =
            Added(b.Value(OpKind::kConstant, {}, fn_.type(operands.back()), fill->attrs), out);
    for (size_t d = 0; !choice.registers && d < modes.size(); ++d) {
      if (modes[d] != 'g') continue;
      const Type index = Type::Scalar(fn_.type(operands[1 + d]).dtype);
      const ValueId row = Added(b.Value(OpKind::kReshape, {operands[1 + d]}, index), out);
      operands[1 + d] = Added(b.Cast(row, DType::kI64), out);
      modes[d] = 'r';
    }
    Attrs attrs = load.attrs;
    const ValueId tile =
        Added(b.Value(OpKind::kLoad, std::move(operands), fn_.type(load.results[0]), attrs), out);
    Op& made = fn_.ops[fn_.values[tile].def];
    made.set("modes", modes);
    if (!choice.registers) made.set("kept", int64_t{0});
    return tile;
  }

  void Turns(Builder& b, const Loops& loops, size_t i, const Choice& choice,
             const std::map<std::pair<size_t, int64_t>, ValueId>& leaders, Forwarding& forward,
             std::vector<OpId>& out) {
    const BlockId body = loops.body(fn_, i);
    const std::vector<ValueId> args = fn_.blocks[body].args,
                               results = fn_.ops[loops.ids[i]].results;
    const std::vector<OpId> ops = fn_.blocks[body].ops;
    std::vector<ValueId> carried(fn_.ops[loops.ids[i]].operands.begin() + 2,
                                 fn_.ops[loops.ids[i]].operands.end());
    for (int64_t turn = 0; turn < loops.turns; ++turn) {
      ValueMap map;
      b.SetSpan(fn_.ops[loops.ids[i]].at);
      map[args[0]] = Position(b, loops, turn, out);
      for (size_t c = 0; c < carried.size(); ++c) map[args[1 + c]] = carried[c];
      for (OpId id : ops) {
        if (fn_.ops[id].kind == OpKind::kYield) {
          for (size_t c = 0; c < carried.size(); ++c) carried[c] = At(map, fn_.ops[id].operands[c]);
          continue;
        }
        if (const ValueId leader = LeaderOf(loops, i, id, turn, leaders); leader.valid()) {
          map[fn_.ops[id].results[0]] = Again(b, loops, i, id, leader, choice, out);
          continue;
        }
        out.push_back(CloneOp(b, fn_, id, map));
      }
    }
    for (size_t c = 0; c < results.size(); ++c) forward.Replace(results[c], carried[c]);
  }
  static ValueId LeaderOf(const Loops& loops, size_t i, OpId load, int64_t turn,
                          const std::map<std::pair<size_t, int64_t>, ValueId>& leaders) {
    for (size_t k = 0; k < loops.kept.size(); ++k)
      if (const auto in = loops.kept[k].in.find(i); in != loops.kept[k].in.end())
        if (in->second == load) return leaders.at({k, turn});
    return {};
  }
  // What a loop reads of a kept tile.
  ValueId Again(Builder& b, const Loops& loops, size_t i, OpId id, ValueId leader,
                const Choice& choice, std::vector<OpId>& out) {
    int64_t time = 0;
    for (const Kept& k : loops.kept)
      if (const auto in = k.in.find(i); in != k.in.end() && in->second == id)
        time = std::distance(k.in.begin(), in);
    if (choice.registers || time == 0) return leader;
    const Op first = *fn_.def(leader);
    b.SetSpan(fn_.ops[id].at);
    const ValueId tile =
        Added(b.Value(OpKind::kLoad, first.operands, fn_.type(leader), first.attrs), out);
    fn_.ops[fn_.values[tile].def].set("kept", time);
    return tile;
  }

  Function& fn_;
  PassContext& cx_;
  // Rows at odd places that are read without any shift, as vectors of weights are not, are read
  // again where a CTA that has one alone would hold many elements a thread: held or put into shared
  // memory they leave room for fewer CTAs (H200, softmax of 7634 x 33033 bf16 422 us, now 367).
  const bool slides_ = SlideOf(fn_) && !ReadsVectors();
};

}  // namespace

Result<> KeepRows(Function& fn, PassContext& cx) {
  std::vector<OpId> grids;
  for (OpId id : OpsInOrder(fn)) {
    const OpKind kind = fn.ops[id].kind;
    if (kind == OpKind::kDot || kind == OpKind::kWhile) return Done();
    if (kind == OpKind::kParallel) grids.push_back(id);
  }
  for (OpId grid : grids) {
    RowKeeper(fn, cx).Grid(grid);
    CopiesFirst(fn, grid);
  }
  return Done();
}

}  // namespace tilec::ir
