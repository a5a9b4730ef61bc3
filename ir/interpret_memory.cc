// Global memory for the interpreter; see the header.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret_memory.h"

#include <algorithm>

#include "support/check.h"

namespace tilec::ir::interpret_internal {
namespace {

// The elements an access touches: per tensor dim the offset of each position, −1 outside.
struct Footprint {
  std::vector<std::vector<int64_t>> offsets;
  std::vector<std::vector<uint8_t>> unsure;  // per dim: position undecided (empty: none)
  bool contiguous = false;                   // the last dim is a range
  bool unsure_range = false;                 // a scalar position or bound is undecided
};

Footprint FootprintOf(const Op& op, const Tensor& tensor, std::span<const Tile* const> operands,
                      bool stores) {
  const std::string& modes = op.s("modes");
  const std::vector<int64_t>& sizes = op.ints("sizes");
  Footprint f;
  size_t next = 0, gathered = 0;
  for (size_t d = 0; d < modes.size(); ++d) {
    const int64_t extent = tensor.value->dims[d];
    const int64_t stride = tensor.strides[d];
    const auto offset = [&](int64_t position, int64_t end) {
      return position >= 0 && position < extent && position < end ? position * stride : -1;
    };
    const Tile& index = *operands[next++];
    if (modes[d] == 'p') {  // both move together
      std::vector<int64_t>& first = f.offsets[gathered];
      for (size_t i = 0; i < first.size(); ++i) {
        const int64_t more = offset(index.n[i], extent);
        first[i] = first[i] < 0 || more < 0 ? -1 : first[i] + more;
      }
      if (!index.und.empty()) f.unsure[gathered].resize(first.size(), 0);
      for (size_t i = 0; !index.und.empty() && i < first.size(); ++i)
        f.unsure[gathered][i] |= static_cast<uint8_t>(index.undecided(i));
      continue;
    }
    f.offsets.emplace_back();
    f.unsure.emplace_back();
    std::vector<int64_t>& to = f.offsets.back();
    if (modes[d] == 'g') {
      gathered = f.offsets.size() - 1;
      for (int64_t position : index.n) to.push_back(offset(position, extent));
      for (size_t i = 0; !index.und.empty() && i < index.size(); ++i)
        f.unsure.back().push_back(index.undecided(i));
      continue;
    }
    f.unsure_range |= index.undecided(0);
    const int64_t start = index.n[0];
    if (modes[d] == 's') {
      to.push_back(offset(start, extent));
      continue;
    }
    int64_t end = extent;
    if (stores) {
      f.unsure_range |= operands[next]->undecided(0);
      end = operands[next++]->n[0];
    }
    for (int64_t i = 0; i < sizes[d]; ++i)
      to.push_back(offset(
          static_cast<int64_t>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i)), end));
    if (d + 1 == modes.size()) f.contiguous = true;
  }
  return f;
}

// Calls line(tile index, offset, valid) for each combination of all dims but the last; `offset` is
// the sum over those, `valid` whether all are inside.
template <typename F>
void ForEachLine(const Footprint& f, F&& line) {
  const size_t rank = f.offsets.size();
  if (rank == 0) return line(size_t{0}, int64_t{0}, true, false);
  const size_t length = f.offsets[rank - 1].size();
  size_t lines = 1;
  for (size_t d = 0; d + 1 < rank; ++d) lines *= f.offsets[d].size();
  std::vector<size_t> at(rank, 0);
  for (size_t i = 0; i < lines; ++i) {
    int64_t offset = 0;
    bool valid = true;
    bool unsure = f.unsure_range;
    for (size_t d = 0; d + 1 < rank; ++d) {
      valid &= f.offsets[d][at[d]] >= 0;
      offset += f.offsets[d][at[d]];
      unsure |= !f.unsure[d].empty() && f.unsure[d][at[d]];
    }
    line(i * length, offset, valid, unsure);
    for (size_t d = rank - 1; d-- > 0;) {
      if (++at[d] < f.offsets[d].size()) break;
      at[d] = 0;
    }
  }
}

uint32_t ClaimOwner(uint32_t claim) { return claim & ~kAtomicBit; }

void NoteRead(Tensor& t, int32_t id, int64_t element, const AccessContext& cx) {
  if (cx.claim == kNobody || t.readers.empty()) return;
  uint32_t& reader = t.readers[static_cast<size_t>(element)];
  if (reader == kNobody)
    reader = cx.claim;
  else if (reader != cx.claim)
    reader = kSeveral;
  const uint32_t owner =
      ClaimOwner(t.claims[static_cast<size_t>(element)].load(std::memory_order_relaxed));
  if (owner != kNobody && owner != cx.claim) cx.conflicts->reads[id].Add(element, owner, cx.claim);
}

// True if this instance may write the element.
bool Claim(Tensor& t, int32_t id, int64_t element, bool atomic, const AccessContext& cx) {
  if (cx.claim == kNobody) return true;
  const auto at = static_cast<size_t>(element);
  if (!t.readers.empty()) {
    const uint32_t reader = t.readers[at];
    if (reader != kNobody && reader != cx.claim)
      cx.conflicts->reads[id].Add(element, reader, cx.claim);
  }
  uint32_t seen = kNobody;
  const uint32_t mine = cx.claim | (atomic ? kAtomicBit : 0);
  if (t.claims[at].compare_exchange_strong(seen, mine, std::memory_order_relaxed)) return true;
  if (ClaimOwner(seen) == cx.claim) {
    if (!atomic) t.claims[at].store(cx.claim, std::memory_order_relaxed);
    return true;
  }
  if (atomic && (seen & kAtomicBit)) {
    t.claims[at].store(kSeveral | kAtomicBit, std::memory_order_relaxed);
    return true;
  }
  cx.conflicts->stores[id].Add(element, ClaimOwner(seen), cx.claim);
  return false;
}

// Was another instance there, or another element of this atomic?
void Meet(Tensor& t, size_t at, const AccessContext& cx) {
  uint64_t& last = t.meetings.turns[at];
  const uint32_t owner = ClaimOwner(t.claims[at].load(std::memory_order_relaxed));
  if (last == *cx.turn || (owner != kNobody && owner != cx.claim)) {
    t.meetings.met.resize(t.meetings.turns.size(), 0);
    t.meetings.met[at] = 1;
  }
  last = *cx.turn;
}

void LoadElement(const Tensor& t, size_t from, Tile& out, size_t to) {
  const TensorValue& value = *t.value;
  if (out.is_float())
    out.v[to] = value.v[from];
  else
    out.n[to] = value.wide() ? value.words[from] : static_cast<int64_t>(value.v[from]);
  if (!value.e.empty() && value.e[from] > 0) {
    if (out.e.empty()) out.e.assign(out.size(), 0.0f);
    out.e[to] = value.e[from];
  }
  if (!value.undecided.empty()) out.Mark(to, value.undecided[from]);
}

void AtomicAdd(AtomicSum& sum, double old, double old_e, double x, double e) {
  if (!sum.started) {
    sum.started = true;
    sum.r = old;
    sum.magnitude = std::fabs(old);
    sum.spread = old_e;
    sum.integral = old == std::floor(old);
  }
  sum.r += x;
  sum.magnitude += std::fabs(x);
  sum.spread += e;
  sum.integral &= x == std::floor(x);
  ++sum.terms;
}

// Adds arrive in any order, each rounded to the type.
double AtomicSpread(const AtomicSum& sum, DType d) {
  const FloatFormat& f = FormatOf(d);
  if (sum.integral && sum.spread == 0 && sum.magnitude <= 1 / f.half_ulp) return 0;
  const double unit = d == DType::kF64 ? 2 * f.half_ulp : f.half_ulp;
  return sum.spread + static_cast<double>(sum.terms) * unit * (sum.magnitude + sum.spread);
}

void AtomicElement(const std::string& kind, Tensor& t, size_t at, const Tile& value, size_t i,
                   Dice* dice) {
  TensorValue& tv = *t.value;
  if (!t.is_float()) {
    const DType d = tv.dtype;
    const int64_t old = tv.wide() ? tv.words[at] : static_cast<int64_t>(tv.v[at]);
    const int64_t x = value.n[i];
    const auto uo = static_cast<uint64_t>(old), ux = static_cast<uint64_t>(x);
    const bool less = d == DType::kU64 ? uo < ux : old < x;
    int64_t r = 0;
    if (kind == "add") r = static_cast<int64_t>(uo + ux);
    if (kind == "min") r = less ? old : x;
    if (kind == "max") r = less ? x : old;
    if (kind == "and") r = old & x;
    if (kind == "or") r = old | x;
    if (kind == "xor") r = old ^ x;
    r = WrapInt(d, r);
    if (tv.wide())
      tv.words[at] = r;
    else
      tv.v[at] = static_cast<double>(r);
    return;
  }
  const double x = value.v[i], e = value.error(i), old = tv.v[at], old_e = tv.e[at];
  if (kind != "add") {
    const double sign = kind == "max" ? 1 : -1;
    const double v = std::isnan(x) || sign * old >= sign * x ? old : x;
    const double high = std::max(sign * old + old_e, sign * x + e);
    const double low = std::max(sign * old - old_e, sign * x - e);
    tv.v[at] = v;
    tv.e[at] = std::isinf(v) || std::isnan(x) ? 0 : Up(std::max(high - sign * v, sign * v - low));
    return;
  }
  AtomicAdd(t.sums[at], old, old_e, x, e);
  Tile one;
  one.Reset(Type::Scalar(tv.dtype));
  one.dice = dice;
  one.v[0] = t.sums[at].r;
  const double p = AtomicSpread(t.sums[at], tv.dtype);
  Finish(one, {&p, 1});
  tv.v[at] = one.v[0];
  tv.e[at] = one.error(0);
  tv.undecided[at] |= one.flags(0);
}

}  // namespace

void Conflicts::Meeting::Add(int64_t at, uint32_t a, uint32_t b) {
  if (element >= 0 && at > element) return;
  if (at != element) instances.clear();
  element = at;
  instances.insert(a);
  instances.insert(b);
}

namespace {

// One element, at a position in each dim.
void LoadOne(int32_t tensor_value, Tensor& tensor, std::span<const Tile* const> operands,
             const AccessContext& context, Tile& out) {
  int64_t element = 0;
  bool valid = true, unsure = false;
  for (size_t d = 0; d < tensor.strides.size(); ++d) {
    const int64_t at = operands[d]->n[0];
    valid &= at >= 0 && at < tensor.value->dims[d];
    unsure |= operands[d]->undecided(0);
    if (valid) element += at * tensor.strides[d];
  }
  if (unsure) out.MarkUndecided(0);
  if (!valid) return;
  NoteRead(tensor, tensor_value, element, context);
  if (!out.e.empty()) out.e[0] = 0;
  if (!out.und.empty() && !unsure) out.und[0] = 0;
  LoadElement(tensor, static_cast<size_t>(element), out, 0);
}

}  // namespace

void Load(const Op& op, Tensor& tensor, std::span<const Tile* const> operands,
          const AccessContext& context, Tile& out) {
  const int32_t tensor_value = op.operands[0].index;
  const bool has_fill = op.i("has_fill") != 0;
  const std::string& modes = op.s("modes");
  const bool one = out.shape.empty() && modes.find_first_not_of('s') == std::string::npos;
  if (out.is_float())
    std::fill(out.v.begin(), out.v.end(), has_fill ? operands.back()->v[0] : 0.0);
  else
    std::fill(out.n.begin(), out.n.end(), has_fill ? operands.back()->n[0] : 0);
  if (has_fill && operands.back()->error(0) > 0) out.e.assign(out.size(), operands.back()->e[0]);
  if (has_fill && operands.back()->flags(0)) out.und.assign(out.size(), operands.back()->flags(0));
  if (one) return LoadOne(tensor_value, tensor, operands, context, out);
  const Footprint f = FootprintOf(op, tensor, operands, false);
  const bool plain = out.is_float() && tensor.value->e.empty() && tensor.value->undecided.empty() &&
                     tensor.readers.empty() && f.contiguous;
  const std::vector<int64_t> none{0};
  const std::vector<int64_t>& last = f.offsets.empty() ? none : f.offsets.back();
  // Of a contiguous last dim: the positions inside.
  size_t begin = 0, end = last.size();
  if (plain) {
    while (begin < end && last[begin] < 0) ++begin;
    while (end > begin && last[end - 1] < 0) --end;
  }
  const bool gathers = !f.unsure.empty() && !f.unsure.back().empty();
  ForEachLine(f, [&](size_t to, int64_t offset, bool valid, bool unsure) {
    if (unsure || gathers)
      for (size_t i = 0; i < last.size(); ++i)
        if (unsure || f.unsure.back()[i]) out.MarkUndecided(to + i);
    if (!valid) return;
    if (plain) {
      if (begin < end)
        std::copy_n(tensor.value->v.data() + offset + last[begin], end - begin,
                    out.v.data() + to + begin);
      if (has_fill && !out.e.empty())
        std::fill_n(out.e.begin() + static_cast<ptrdiff_t>(to + begin), end - begin, 0.0f);
      return;
    }
    for (size_t i = 0; i < last.size(); ++i) {
      if (last[i] < 0) continue;
      const int64_t element = offset + last[i];
      NoteRead(tensor, tensor_value, element, context);
      if (!out.e.empty()) out.e[to + i] = 0;
      if (has_fill && !out.und.empty() && !unsure && !gathers) out.und[to + i] = 0;
      LoadElement(tensor, static_cast<size_t>(element), out, to + i);
    }
  });
}

void Store(const Op& op, Tensor& tensor, const Tile& value, std::span<const Tile* const> operands,
           const AccessContext& context, Tile* found) {
  const int32_t tensor_value = op.operands[0].index;
  const std::string& kind = op.s("kind");
  const bool atomic = op.kind == OpKind::kAtomic;
  const Footprint f = FootprintOf(op, tensor, operands, true);
  TensorValue& tv = *tensor.value;
  const std::vector<int64_t> none{0};
  const std::vector<int64_t>& last = f.offsets.empty() ? none : f.offsets.back();
  const bool gathers = !f.unsure.empty() && !f.unsure.back().empty();
  if (atomic && !tensor.meetings.turns.empty()) ++*context.turn;
  ForEachLine(f, [&](size_t from, int64_t offset, bool valid, bool unsure) {
    if (found)
      for (size_t i = 0; i < last.size(); ++i)
        if (unsure || (gathers && f.unsure.back()[i])) found->MarkUndecided(from + i);
    if (unsure || (gathers && std::count(f.unsure.back().begin(), f.unsure.back().end(), 1) > 0))
      tensor.scattered.store(true, std::memory_order_relaxed);
    if (!valid) return;
    for (size_t i = 0; i < last.size(); ++i) {
      if (last[i] < 0) continue;
      const auto at = static_cast<size_t>(offset + last[i]);
      if (atomic && !tensor.meetings.turns.empty()) Meet(tensor, at, context);
      if (found) {
        LoadElement(tensor, at, *found, from + i);
        if (context.tainted || tensor.known->At(at)) found->MarkUndecided(from + i);
      }
      if (!Claim(tensor, tensor_value, offset + last[i], atomic, context)) continue;
      const uint8_t flags = context.tainted ? kJump : value.flags(from + i);
      *context.undecided_stores += (flags & kUndecided) != 0;
      if (atomic) {
        AtomicElement(kind, tensor, at, value, from + i, context.dice);
        tv.undecided[at] |= flags;
        continue;
      }
      if (value.is_float()) {
        tv.v[at] = value.v[from + i];
        tv.e[at] = value.error(from + i);
      } else if (tv.wide()) {
        tv.words[at] = value.n[from + i];
      } else {
        tv.v[at] = static_cast<double>(value.n[from + i]);
      }
      tv.undecided[at] = flags;
      if (!tensor.sums.empty()) tensor.sums[at] = AtomicSum();
    }
  });
}

void Prepare(Tensor& t, bool bounds) {
  const auto n = static_cast<size_t>(t.value->elements());
  t.strides = RowMajorStrides(t.value->dims);
  TensorValue& tv = *t.value;
  // Executors may flush subnormals of the f32 range wherever they compute with them.
  if (bounds && IsFloat(tv.dtype) && FormatOf(tv.dtype).flushes) {
    const double least = FormatOf(tv.dtype).min_normal;
    for (size_t i = 0; i < n; ++i)
      if (tv.v[i] != 0 && std::fabs(tv.v[i]) < least) {
        if (tv.e.empty()) tv.e.assign(n, 0.0f);
        tv.e[i] = std::max(tv.e[i], Up(std::fabs(tv.v[i])));
        if (tv.undecided.empty()) tv.undecided.assign(n, 0);
        tv.undecided[i] |= kCovers;  // it is read, or 0 is
      }
  }
  if (!t.written) return;
  tv.e.resize(IsFloat(tv.dtype) ? n : 0, 0.0f);
  tv.undecided.resize(n, 0);
  t.claims = std::vector<std::atomic<uint32_t>>(n);
  if (t.read) t.readers.assign(n, kNobody);
}

void Settle(Tensor& t, bool sampled) {
  TensorValue& tv = *t.value;
  if (sampled)
    for (size_t i = 0; i < t.claims.size(); ++i) {
      const uint32_t who = t.claims[i].load(std::memory_order_relaxed);
      if (who == kNobody || (who & kAtomicBit)) tv.undecided[i] |= kJump;
    }
  if (t.scattered) std::fill(tv.undecided.begin(), tv.undecided.end(), kJump);
  if (std::all_of(tv.e.begin(), tv.e.end(), [](float e) { return e == 0; })) tv.e.clear();
  if (std::all_of(tv.undecided.begin(), tv.undecided.end(), [](uint8_t u) { return u == 0; }))
    tv.undecided.clear();
}

}  // namespace tilec::ir::interpret_internal
