// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/isa.h"
#include "ir/layout_scratch.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
// Scaled products, of at most so many columns as one product has.
bool ScalesOnUnit(const Function& fn, const Op& dot, const Target& target) {
  const char* feature = target.unit().scales;
  return feature && target.Has(feature) &&
         fn.type(dot.results[0]).shape[1] <= target.unit().most_columns;
}
}  // namespace

bool IsOnUnit(const Function& fn, const Op& dot, const Target& target) {
  if (dot.operands.size() > 3) return ScalesOnUnit(fn, dot, target);
  return target.Multiplies(fn.type(dot.operands[0]).dtype, fn.type(dot.operands[1]).dtype,
                           fn.type(dot.results[0]).dtype);
}

bool AddsUp(const Function& fn, const Op& dot) {
  const Op* sum = fn.def(dot.operands[2]);
  return !sum || sum->kind == OpKind::kDot;
}

std::vector<OpId> AddedUp(const Function& fn, const Uses& uses, const Op& loop, size_t carried) {
  const Block& body = fn.blocks[loop.regions[0]];
  const ValueId first = body.args[1 + carried];
  if (uses.count(first) != 1) return {};
  std::vector<OpId> dots;
  for (ValueId v = fn.ops[body.ops.back()].operands[carried]; v != first;) {
    const Op* dot = fn.def(v);
    if (!dot || dot->kind != OpKind::kDot || dot->block != loop.regions[0] || uses.count(v) != 1)
      return {};
    dots.push_back(fn.values[v].def);
    v = dot->operands[2];
  }
  return {dots.rbegin(), dots.rend()};
}

bool MadeOfLoads(const Function& fn, ValueId v, BlockId turn) {
  if (!fn.type(v).is_tile()) return true;
  const Op* def = fn.def(v);
  if (!def) return false;
  if (def->kind == OpKind::kConstant) return true;
  if (turn.valid() && def->block != turn) return false;
  if (def->kind == OpKind::kLoad) return true;
  return (Renames(def->kind) || Info(def->kind).elementwise()) &&
         std::all_of(def->operands.begin(), def->operands.end(),
                     [&](ValueId o) { return MadeOfLoads(fn, o, turn); });
}

bool BecomesLeft(MatrixUnit unit, const Type& tile, const Layout& held, int warpgroups,
                 WgSplit split) {
  const std::optional<Layout> left = LeftInRegisters(unit, tile, warpgroups, split);
  return left && (held == *left || ExchangedInQuads(tile, held, *left) ||
                  (ByteSize(tile.dtype) == 1 && RegisterMap(held, *left, tile.shape)));
}

bool BufferNeed::Merge(const BufferNeed& other) {
  if (plain != other.plain) return false;
  rows = std::max(rows, other.rows);
  cols = std::max(cols, other.cols);
  cols_contracted = cols_contracted || other.cols_contracted;
  rows_contracted = rows_contracted || other.rows_contracted;
  col_piece = std::gcd(col_piece, other.col_piece);
  return true;
}

SmemLayout BufferNeed::Layout(DType dtype) const {
  const int64_t size = ByteSize(dtype);
  if (plain) return {rows, cols, cols, 0};
  const int64_t bytes = cols * size;
  int swizzle = 32;
  if (cols_contracted) {
    // Panels must end with the tile: the widest span that divides it.
    const int64_t exact = RoundUp(tile_cols * size, 32);
    if (exact % 128 == 0)
      swizzle = 128;
    else if (exact % 64 == 0)
      swizzle = 64;
  } else {
    swizzle = bytes > 64 ? 128 : bytes > 32 ? 64 : 32;
  }
  while (swizzle > 32 && col_piece * size % swizzle != 0) swizzle /= 2;
  const int64_t panel = swizzle / size;
  return {RoundUp(rows, 8), RoundUp(cols, panel), panel, swizzle};
}

bool BufferNeed::NeedsZero(DType dtype) const {
  const SmemLayout layout = Layout(dtype);
  return !plain && ((cols_contracted && layout.cols != tile_cols) ||
                    (rows_contracted && layout.rows != tile_rows));
}

bool BufferNeed::TmaFits(DType dtype) const {
  const int64_t bytes = tile_cols * ByteSize(dtype);
  if (plain) return bytes % 16 == 0 && tile_cols <= 256 && cols == tile_cols;
  return !cols_contracted || bytes % 32 == 0;
}

namespace {
constexpr int64_t kLeastChunk = 4;       // bytes of a cp.async
constexpr int64_t kRowPanelBytes = 128;  // a chunk for each lane of a warp

// The innermost coordinate must sit on 16 bytes, or the engine faults (seen on an H200).
bool OnChunk(const Function& fn, ValueId start, DType dtype) {
  return AlignOf(fn, start) * ByteSize(dtype) % 16 == 0;
}
}  // namespace

bool ByThreads(const Function& fn, const Op& load) {
  const std::string& modes = load.s("modes");
  if (modes.find('g') != std::string::npos) return true;
  const Type& tile = fn.type(load.results[0]);
  if (tile.rank() < 2 || modes.back() != 'r') return false;
  return !OnChunk(fn, load.operands[modes.size()], tile.dtype);
}

std::optional<TileAccess> TmaAccess(const Function& fn, const Op& op, const Target& target) {
  if (!target.Has("tma")) return std::nullopt;
  const bool store = op.kind != OpKind::kLoad;
  const Param* p = fn.param(op.operands[0]);
  if (!p || p->kind != ParamKind::kTensor) return std::nullopt;
  const Direction direction = op.kind == OpKind::kAtomic ? Direction::kInOut
                              : store                    ? Direction::kOut
                                                         : Direction::kIn;
  if (p->direction != direction) return std::nullopt;
  const DType dtype = fn.type(op.operands[0]).dtype;
  const int64_t rank = fn.type(op.operands[0]).rank();
  if (rank < 2 || rank > 5 || ByteSize(dtype) > 4) return std::nullopt;
  if (!p->facts.last_contiguous || p->facts.base_align_bytes % 16 != 0 ||
      p->facts.stride_align_bytes % 16 != 0)
    return std::nullopt;
  if (op.i("has_fill")) {
    const Op* fill = fn.def(op.operands.back());
    if (!fill || fill->kind != OpKind::kConstant || fill->number("value") != 0) return std::nullopt;
  }
  if (store) {
    if (op.i("ends_inside") != 0) return std::nullopt;
    // Stores are clipped to whole 16-byte chunks: the last column must end on one.
    const int64_t last = p->dims.back().is_const() ? p->dims.back().value : p->facts.last_dim_align;
    if (last * ByteSize(dtype) % 16 != 0) return std::nullopt;
  }
  const std::string& modes = op.s("modes");
  TileAccess access;
  int64_t folded = 1;
  size_t operand = store ? 2 : 1;
  for (size_t d = 0; d < modes.size(); ++d) {
    if (IsGathered(modes[d])) return std::nullopt;
    if (IsRange(modes[d])) {
      folded *= modes[d] == 'f' ? op.ints("sizes")[d] : 1;
      if (access.col_dim >= 0) return std::nullopt;  // three ranges
      if (modes[d] == 'r')
        (access.row_dim < 0 ? access.row_dim : access.col_dim) = static_cast<int>(d);
      const ValueId start = op.operands[operand];
      if (static_cast<int64_t>(d) == rank - 1 && !OnChunk(fn, start, dtype)) return std::nullopt;
      if (store && !NonNegativeIn(fn, op.block, start)) return std::nullopt;  // faults, too
      if (store) {
        // Clipped to range ∩ tensor; TMA clips to the tensor only. They agree where the range ends
        // at the extent, or at the smaller of the extent and its own full size.
        const ValueId end = op.operands[operand + 1];
        auto is_extent = [&](ValueId v) {
          const std::optional<Expr> e = ToExpr(fn, v);
          return e && Simplify(*e) == Simplify(p->dims[d]);
        };
        bool whole = is_extent(end);
        if (const Op* clip = fn.def(end); clip && clip->kind == OpKind::kMin)
          for (ValueId side : clip->operands) whole = whole || is_extent(side);
        if (!whole) return std::nullopt;
      }
    }
    operand += OperandsOf(modes[d], store);
  }
  if (access.col_dim != rank - 1) return std::nullopt;
  // A box of several dims is copied as one.
  if (folded > 1 &&
      folded * op.ints("sizes")[static_cast<size_t>(access.row_dim)] > isa::kMostBoxExtent)
    return std::nullopt;
  return access;
}

std::string WhyByThreads(const Function& fn, const Op& load, const Target& target) {
  if (TmaAccess(fn, load, target) || ThreadCopyAccess(fn, load, target) ||
      RowCopyAccess(fn, load, target))
    return "";
  const Param* p = fn.param(load.operands[0]);
  if (!p || p->kind != ParamKind::kTensor) return "it is no tensor of the kernel's";
  const std::string name = "`" + p->name + "`";
  const std::string& modes = load.s("modes");
  const Type& tensor = fn.type(load.operands[0]);
  if (p->direction != Direction::kIn)
    return fmt::format("the kernel writes {} too, and a copy that runs ahead might come too early",
                       name);
  if (modes.find('g') != std::string::npos)
    return fmt::format("its rows of {} are gathered, and threads gather", name);
  if (load.i("has_fill")) {
    const Op* fill = fn.def(load.operands.back());
    if (!fill || fill->kind != OpKind::kConstant || fill->number("value") != 0)
      return "copies fill with zeros, and this load with something else";
  }
  if (!p->facts.last_contiguous) return fmt::format("the last stride of {} may be any", name);
  if (!target.Has("tma"))
    return "copies by threads want tiles of two ranges, 4 bytes of a row at once";
  if (ByteSize(tensor.dtype) > 4)
    return fmt::format("elements of {} have {} bytes, and copies bring up to 4", name,
                       ByteSize(tensor.dtype));
  if (tensor.rank() < 2 || tensor.rank() > 5)
    return fmt::format("{} has {} dims, and copies bring tiles of 2 to 5", name, tensor.rank());
  if (p->facts.base_align_bytes % 16 != 0 || p->facts.stride_align_bytes % 16 != 0)
    return fmt::format("rows of {} are not known to begin at multiples of 16 bytes", name);
  if (std::count(modes.begin(), modes.end(), 'r') != 2 || modes.back() != 'r')
    return fmt::format("copies bring tiles of two ranges, one along the last dim of {}", name);
  return fmt::format("its first column of {} is not known to be at a multiple of 16 bytes", name);
}

namespace {
// Of a load that threads can copy in chunks, whatever else the machine has.
std::optional<ThreadCopy> InChunks(const Function& fn, const Op& load) {
  const Param* p = fn.param(load.operands[0]);
  const Type& tile = fn.type(load.results[0]);
  if (!p || p->kind != ParamKind::kTensor || p->direction != Direction::kIn || tile.rank() != 2 ||
      !p->facts.last_contiguous)
    return std::nullopt;
  if (load.i("has_fill")) {
    const Op* fill = fn.def(load.operands.back());
    if (!fill || fill->kind != OpKind::kConstant || fill->number("value") != 0) return std::nullopt;
  }
  TileAccess access;
  const std::string& modes = load.s("modes");
  for (size_t d = 0; d < modes.size(); ++d) {
    if (modes[d] == 's') continue;
    if (modes[d] != 'r' || access.col_dim >= 0) return std::nullopt;
    (access.row_dim < 0 ? access.row_dim : access.col_dim) = static_cast<int>(d);
  }
  if (access.col_dim < 0 || access.col_dim + 1 != static_cast<int>(modes.size()))
    return std::nullopt;
  // Whole chunks: aligned in the tensor, and neither its rows nor the tile's end within one.
  const int64_t size = ByteSize(tile.dtype), row = tile.shape[1] * size;
  int64_t chunk = AccessLimit(fn, load) * size;
  while (chunk >= kLeastChunk && row % chunk != 0) chunk /= 2;
  if (chunk < kLeastChunk || chunk > kAccessBytes) return std::nullopt;
  return ThreadCopy{access, chunk};
}
}  // namespace

std::optional<ThreadCopy> ThreadCopyAccess(const Function& fn, const Op& load,
                                           const Target& target) {
  if (target.Has("tma")) return std::nullopt;
  return InChunks(fn, load);
}

std::optional<ThreadCopy> RowCopyAccess(const Function& fn, const Op& load, const Target& target) {
  const Type& tile = fn.type(load.results[0]);
  // Where one thread issues the products, what threads copy has no place in their order.
  if (!target.Has("tma") || InTensorMemory(target.matrix_unit.kind) || tile.rank() != 2 ||
      tile.shape[0] != 1)
    return std::nullopt;
  const int64_t bytes = tile.shape[1] * ByteSize(tile.dtype);
  const bool whole = bytes > kRowPanelBytes || kRowPanelBytes % bytes == 0;
  return whole ? InChunks(fn, load) : std::nullopt;
}

SmemLayout RowLayout(const Type& row) {
  const int64_t panel = std::min(row.shape[1], kRowPanelBytes / ByteSize(row.dtype));
  return {1, RoundUp(row.shape[1], panel), panel, 0};
}

bool EngineCombines(const std::string& kind, DType dtype) {
  const bool word = dtype == DType::kI32 || dtype == DType::kU32;
  return word ||
         (kind == "add" && (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16));
}

std::optional<SmemLayout> StagingLayout(const Type& tile) {
  const int64_t size = ByteSize(tile.dtype);
  const int64_t bytes = tile.shape[1] * size;
  for (int swizzle : {128, 64, 32})
    if (bytes % swizzle == 0)
      return SmemLayout{RoundUp(tile.shape[0], 8), tile.shape[1], swizzle / size, swizzle};
  if (bytes % 16 == 0 && tile.shape[1] <= 256)
    return SmemLayout{tile.shape[0], tile.shape[1], tile.shape[1], 0};
  return std::nullopt;
}

std::optional<SmemLayout> StagingInHalves(const Type& tile) {
  const int64_t size = ByteSize(tile.dtype), bytes = tile.shape[1] * size;
  const int64_t half = tile.shape[1] / 2;
  if (bytes % 64 != 32 || half > 256 || tile.shape[0] * half * size % 128 != 0) return std::nullopt;
  return SmemLayout{tile.shape[0], tile.shape[1], half, 0};
}

std::optional<SmemLayout> RereadLayout(const Type& tile) {
  if (tile.rank() != 2) return std::nullopt;
  const int64_t size = ByteSize(tile.dtype), columns = tile.shape[1];
  for (int64_t panel = std::min<int64_t>(256, columns); panel * size >= 64; --panel)
    // Rows of boxes are whole 16 bytes, and boxes land at multiples of 128.
    if (columns % panel == 0 && panel * size % 16 == 0 && tile.shape[0] * panel * size % 128 == 0)
      return SmemLayout{tile.shape[0], columns, panel, 0};
  return std::nullopt;
}

int64_t AccessLimit(const Function& fn, const Op& op) {
  const bool store = op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
  const Param* p = fn.param(op.operands[0]);
  const std::string& modes = op.s("modes");
  if (!p || modes.empty() || modes.back() != 'r' || !p->facts.last_contiguous) return 1;
  const Type& tensor = fn.type(op.operands[0]);
  const int64_t size = ByteSize(tensor.dtype);
  auto power = [](int64_t v) { return v & -v; };
  int64_t limit = kAccessBytes / size;
  const TensorFacts& facts = p->facts;
  limit = std::min(limit, std::max<int64_t>(1, facts.base_align_bytes / size));
  if (tensor.rank() > 1)
    limit = std::min(limit, std::max<int64_t>(1, facts.stride_align_bytes / size));
  limit = std::min(limit, std::max<int64_t>(1, facts.last_dim_align));
  if (p->dims.back().is_const() && p->dims.back().value > 0)
    limit = std::min(limit, power(p->dims.back().value));
  const size_t fill = op.kind == OpKind::kLoad && op.i("has_fill") ? 1 : 0;
  const size_t start = op.operands.size() - fill - (store ? 2 : 1);
  limit = std::min(limit, AlignOf(fn, op.operands[start]));
  if (store) limit = std::min(limit, AlignOf(fn, op.operands[start + 1]));
  return std::max<int64_t>(1, power(limit));
}

int64_t AccessVector(const std::vector<RowAccess>& accesses) {
  // Elements of more in a row than go at once are accessed in parts, by lanes that far apart: the
  // L1 looks at every line once for each part. Fewer elements than fill 16 bytes take more
  // instructions. (Layernorm of bf16 rows with f32 vectors: 640 lines and 96 instructions a row,
  // or 384 and 128.)
  const auto cost = [&](int64_t vector) {
    int64_t sum = 0;  // in bytes of lines
    for (const RowAccess& a : accesses) {
      const int64_t at_once = std::min(vector, a.limit);
      sum += a.elements * a.bytes * (vector / at_once);
      sum += a.elements / at_once * isa::kLineBytes / isa::kWarpThreads;
    }
    return sum;
  };
  int64_t narrow = 4, least = kAccessBytes / 4;
  for (const RowAccess& a : accesses) {
    narrow = std::min(narrow, a.bytes);
    if (a.limit < kAccessBytes / a.bytes) least = std::min(least, a.limit);  // not aligned
  }
  int64_t vector = kAccessBytes / narrow;
  for (int64_t v = vector / 2; v >= least; v /= 2)
    if (cost(v) < cost(vector)) vector = v;
  return vector;
}

bool CanStage(const Function& fn, const Op& store, const Target& target) {
  const Type& type = fn.type(store.operands[1]);
  return type.rank() == 2 && type.elements() >= target.lowering.turned_elements &&
         TmaAccess(fn, store, target) && StagingLayout(type);
}

bool StoresTransposed(const Function& fn, const Op& store, const Target& target) {
  if (store.kind != OpKind::kStore || !CanStage(fn, store, target)) return false;
  const Op* turn = fn.def(store.operands[1]);
  if (!turn || turn->kind != OpKind::kTranspose) return false;
  const Op* from = fn.def(turn->operands[0]);
  return from && from->kind != OpKind::kLoad;  // loads would rather be laid out for the store
}

Layout KeepDims(const Layout& layout, const std::vector<int>& keep) {
  Layout out = layout;
  for (int d = layout.rank - 1; d >= 0; --d)
    if (std::find(keep.begin(), keep.end(), d) == keep.end()) out = SliceLayout(out, d);
  // What is left is the kept dims in ascending order; bring them into `keep`'s order.
  std::vector<int> sorted = keep;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> perm;
  for (int d : keep) perm.push_back(std::find(sorted.begin(), sorted.end(), d) - sorted.begin());
  return PermuteLayout(out, perm);
}

Layout Unsqueeze(const Layout& layout, const std::vector<int64_t>& shape) {
  std::vector<int> where;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) where.push_back(static_cast<int>(d));
  Layout out = layout;
  out.rank = static_cast<int>(shape.size());
  for (auto* digits : {&out.thread, &out.reg})
    for (LayoutDigit& d : *digits)
      if (d.dim >= 0) d.dim = where[static_cast<size_t>(d.dim)];
  return out;
}

}  // namespace tilec::ir
