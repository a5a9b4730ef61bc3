// SPDX-License-Identifier: Apache-2.0
#include "ir/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>
#include <iterator>
#include <map>

#include "support/expr.h"

namespace tilec::ir {
namespace {

int64_t ProductOfExtents(const std::vector<LayoutDigit>& digits) {
  int64_t n = 1;
  for (const LayoutDigit& d : digits) n *= d.extent;
  return n;
}

void AddDigits(const std::vector<LayoutDigit>& digits, int64_t index, std::vector<int64_t>& c) {
  for (const LayoutDigit& d : digits) {
    if (d.dim >= 0) c[static_cast<size_t>(d.dim)] += (index % d.extent) * d.stride;
    index /= d.extent;
  }
}

// Neighbouring replicated thread digits merge, digits of extent 1 vanish: equal layouts compare
// equal however they were made.
Layout Canonical(Layout layout) {
  auto clean = [](std::vector<LayoutDigit>& digits) {
    std::vector<LayoutDigit> out;
    for (LayoutDigit d : digits) {
      if (d.extent == 1) continue;
      if (d.dim < 0) d.stride = 0;
      if (!out.empty() && out.back().dim == d.dim &&
          (d.dim < 0 || d.stride == out.back().stride * out.back().extent))
        out.back().extent *= d.extent;
      else
        out.push_back(d);
    }
    digits = std::move(out);
  };
  clean(layout.thread);
  clean(layout.reg);
  return layout;
}

}  // namespace

int64_t CeilPow2(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

int64_t Layout::threads() const { return ProductOfExtents(thread); }
int64_t Layout::regs() const { return ProductOfExtents(reg); }
std::vector<int64_t> Layout::RegCoord(int64_t reg_index) const {
  std::vector<int64_t> c(static_cast<size_t>(rank), 0);
  AddDigits(reg, reg_index, c);
  return c;
}
std::vector<int64_t> Layout::ThreadCoord(int64_t thread_index) const {
  std::vector<int64_t> c(static_cast<size_t>(rank), 0);
  AddDigits(thread, thread_index, c);
  return c;
}
std::vector<int64_t> Layout::Coord(int64_t thread_index, int64_t reg_index) const {
  std::vector<int64_t> c = ThreadCoord(thread_index);
  AddDigits(reg, reg_index, c);
  return c;
}
std::vector<int64_t> Layout::Extent() const {
  std::vector<int64_t> e(static_cast<size_t>(rank), 1);
  for (const auto* digits : {&thread, &reg})
    for (const LayoutDigit& d : *digits)
      if (d.dim >= 0) e[static_cast<size_t>(d.dim)] += (d.extent - 1) * d.stride;
  return e;
}

Layout AccumulatorLayout(int64_t m, int64_t n, int warpgroups, WgSplit split, int64_t across) {
  const int64_t wgs = warpgroups;
  const int64_t blocks = split == WgSplit::kM ? CeilDiv(CeilDiv(m, 64), wgs) : CeilDiv(m, 64);
  const int64_t cols = split == WgSplit::kN ? RoundUp(CeilDiv(n, wgs), 8) : RoundUp(n, 8);
  Layout out;
  out.rank = 2;
  // Of a block of 64 rows a warp has 16 · across, of its warpgroup's columns an across-th part.
  const int64_t part = cols / across;
  out.thread = {{4, 1, 2}, {8, 0, 1}, {4 / across, 0, 16 * across}, {across, 1, part}};
  switch (split) {
    case WgSplit::kM: out.thread.push_back({wgs, 0, 64 * blocks}); break;
    case WgSplit::kN: out.thread.push_back({wgs, 1, cols}); break;
    case WgSplit::kNone: out.thread.push_back({wgs, -1, 0}); break;
  }
  out.reg = {{2, 1, 1}, {2, 0, 8}, {part / 8, 1, 8}, {across, 0, 16}, {blocks, 0, 64}};
  return Canonical(out);
}

Layout BlockedLayout(const std::vector<int64_t>& shape, int64_t vector, int64_t threads) {
  Layout out;
  out.rank = static_cast<int>(shape.size());
  CHECK(out.rank > 0, "blocked layout of a scalar");
  const int last = out.rank - 1;
  int64_t left = threads;
  std::vector<int64_t> covered(shape.size(), 1);
  if (vector > 1) out.reg.push_back({vector, last, 1});
  covered[static_cast<size_t>(last)] = vector;
  // Threads along the last dim first, then outward. Thread counts may have a factor of three
  // (three warpgroups), which goes to the outermost dim that still has work.
  for (int d = last; d >= 0 && left > 1; --d) {
    const size_t i = static_cast<size_t>(d);
    const int64_t want = CeilDiv(shape[i], covered[i]);
    int64_t take = std::min<int64_t>(CeilPow2(want), left & -left);
    if (take > 1) {
      out.thread.push_back({take, d, covered[i]});
      covered[i] *= take;
      left /= take;
    }
    if (left == 3 && covered[i] < shape[i]) {
      out.thread.push_back({3, d, covered[i]});
      covered[i] *= 3;
      left = 1;
    }
  }
  if (left > 1) out.thread.push_back({left, -1, 0});
  for (int d = last; d >= 0; --d) {
    const size_t i = static_cast<size_t>(d);
    const int64_t reps = CeilDiv(shape[i], covered[i]);
    if (reps > 1) out.reg.push_back({reps, d, covered[i]});
  }
  return Canonical(out);
}

Layout CrossedLayout(const std::vector<int64_t>& shape, const CrossedDim& first,
                     const CrossedDim& second, int64_t threads) {
  constexpr int64_t kLanes = 32, kLanesOfSecond = 8;
  Layout out;
  out.rank = static_cast<int>(shape.size());
  CHECK(first.dim != second.dim, "rows along one dim do not cross");
  std::vector<int64_t> covered(shape.size(), 1);
  for (const CrossedDim* d : {&first, &second}) {
    out.reg.push_back({d->vector, d->dim, 1});
    covered[static_cast<size_t>(d->dim)] = d->vector;
  }
  int64_t left = threads;
  const auto take = [&](int dim, int64_t most) {
    const size_t i = static_cast<size_t>(dim);
    const int64_t n = std::min({CeilPow2(CeilDiv(shape[i], covered[i])), most, left & -left});
    if (n <= 1) return;
    out.thread.push_back({n, dim, covered[i]});
    covered[i] *= n;
    left /= n;
  };
  // A warp: 64 bytes of each row of one side, 128 of the other, if vectors have 16.
  take(first.dim, kLanes / kLanesOfSecond);
  take(second.dim, kLanesOfSecond);
  for (const CrossedDim* d : {&first, &second})
    take(d->dim, CeilPow2(CeilDiv(d->line, covered[static_cast<size_t>(d->dim)])));
  for (int dim = out.rank - 1; dim >= 0; --dim) take(dim, left);
  if (left > 1) out.thread.push_back({left, -1, 0});
  for (int dim = out.rank - 1; dim >= 0; --dim) {
    const size_t i = static_cast<size_t>(dim);
    if (const int64_t reps = CeilDiv(shape[i], covered[i]); reps > 1)
      out.reg.push_back({reps, dim, covered[i]});
  }
  return Canonical(out);
}

RegisterRun RunAlong(const Layout& layout, int dim) {
  RegisterRun run;
  int64_t step = 1;
  for (size_t i = 0; i < layout.reg.size(); ++i) {
    const LayoutDigit& d = layout.reg[i];
    if (d.dim == dim && d.stride == 1) return {static_cast<int>(i), d.extent, step};
    step *= d.extent;
  }
  return run;
}

std::vector<std::vector<int>> RunGroups(const Layout& layout, const RegisterRun& run,
                                        int64_t vector) {
  CHECK(run.extent % vector == 0, "vectors that a run does not hold");
  std::vector<std::vector<int>> groups;
  for (int64_t r = 0; r < layout.regs(); ++r) {
    if (r / run.step % vector != 0) continue;
    groups.emplace_back();
    for (int64_t i = 0; i < vector; ++i)
      groups.back().push_back(static_cast<int>(r + i * run.step));
  }
  return groups;
}

Layout ReplicatedLayout(const std::vector<int64_t>& shape, int64_t threads) {
  Layout out;
  out.rank = static_cast<int>(shape.size());
  out.thread = {{threads, -1, 0}};
  int d = out.rank - 1;
  for (auto it = shape.rbegin(); it != shape.rend(); ++it, --d) out.reg.push_back({*it, d, 1});
  return Canonical(out);
}

Layout SliceLayout(const Layout& layout, int dim) {
  Layout out;
  out.rank = layout.rank - 1;
  for (LayoutDigit d : layout.thread) {
    if (d.dim == dim) d.dim = -1;
    if (d.dim > dim) --d.dim;
    out.thread.push_back(d);
  }
  for (LayoutDigit d : layout.reg) {
    if (d.dim == dim) continue;
    if (d.dim > dim) --d.dim;
    out.reg.push_back(d);
  }
  return Canonical(out);
}

Layout PermuteLayout(const Layout& layout, const std::vector<int64_t>& perm) {
  Layout out = layout;
  for (auto* digits : {&out.thread, &out.reg})
    for (LayoutDigit& d : *digits)
      if (d.dim >= 0)
        d.dim = static_cast<int>(std::find(perm.begin(), perm.end(), d.dim) - perm.begin());
  return Canonical(out);
}

namespace {
// Digits of registers: two columns, two rows, blocks of eight columns, an even number of them.
bool HoldsPairs(const Layout& layout) {
  constexpr int64_t kQuad = 4, kRowsApart = 8;
  const int column = layout.rank - 1;
  if (layout.rank != 2 || layout.thread.empty() || layout.reg.size() < 3) return false;
  const LayoutDigit& blocks = layout.reg[2];
  return layout.thread[0] == LayoutDigit{kQuad, column, 2} &&
         layout.reg[0] == LayoutDigit{2, column, 1} &&
         layout.reg[1] == LayoutDigit{2, 0, kRowsApart} && blocks.dim == column &&
         blocks.stride == 8 && blocks.extent % 2 == 0;
}
}  // namespace

std::optional<Layout> FoursOf(const Layout& pairs) {
  if (!HoldsPairs(pairs)) return std::nullopt;
  Layout out = pairs;
  out.thread[0].stride = 4;
  out.reg[0].extent = 4;
  out.reg[2] = {out.reg[2].extent / 2, out.rank - 1, 16};
  return Canonical(out);
}

std::optional<Layout> InterleavedColumns(const Layout& pairs) {
  if (!HoldsPairs(pairs)) return std::nullopt;
  Layout out = pairs;
  const int column = out.rank - 1;
  out.thread[0].stride = 4;
  out.reg[0].stride = 2;
  out.reg[2] = {out.reg[2].extent / 2, column, 16};
  out.reg.insert(out.reg.begin() + 3, {2, column, 1});
  return Canonical(out);
}

Layout ColumnsLayout(const Layout& layout, int64_t width) {
  Layout out = layout;
  for (LayoutDigit& d : out.reg)
    if (d.dim == out.rank - 1 && d.stride * d.extent > width)
      d.extent = std::max<int64_t>(1, width / d.stride);
  return Canonical(out);
}

int64_t RowsOfParts(const Layout& layout, int parts) {
  if (parts < 2 || layout.rank < 1 || layout.thread.empty()) return 0;
  const LayoutDigit& last = layout.thread.back();
  if (last.dim != 0 || last.extent % parts != 0) return 0;
  const int64_t rows = last.extent / parts * last.stride;  // from run to run
  int64_t held = 1 + rows - last.stride;                   // by the threads of one run
  for (size_t i = 0; i + 1 < layout.thread.size(); ++i)
    if (layout.thread[i].dim == 0) held += (layout.thread[i].extent - 1) * layout.thread[i].stride;
  for (const LayoutDigit& d : layout.reg)
    if (d.dim == 0) held += (d.extent - 1) * d.stride;
  return held <= rows ? rows : 0;
}

std::optional<std::vector<int>> ColumnsMap(const Layout& from, const Layout& to, int64_t first,
                                           int64_t columns) {
  if (from.rank != to.rank || from.rank == 0 || from.thread != to.thread) return std::nullopt;
  // Coordinates as one number each: where a dim ends, the next begins.
  const auto last = static_cast<size_t>(from.rank) - 1;
  std::vector<int64_t> extents = from.Extent(), others = to.Extent();
  others[last] += first;
  for (size_t d = 0; d <= last; ++d) extents[d] = std::max(extents[d], others[d]);
  const auto number = [&](const std::vector<int64_t>& at) {
    int64_t n = 0;
    for (size_t d = 0; d <= last; ++d) n = n * extents[d] + at[d];
    return n;
  };
  std::vector<std::pair<int64_t, int>> at;
  for (int64_t q = 0; q < from.regs(); ++q)
    at.emplace_back(number(from.RegCoord(q)), static_cast<int>(q));
  std::sort(at.begin(), at.end());
  std::vector<int> map;
  for (int64_t r = 0; r < to.regs(); ++r) {
    std::vector<int64_t> want = to.RegCoord(r);
    want[last] += first;
    if (want[last] >= columns) {
      map.push_back(-1);
      continue;
    }
    // (Of registers that hold the same the last one.)
    const auto above = std::upper_bound(at.begin(), at.end(), std::pair(number(want), INT_MAX));
    if (above == at.begin() || std::prev(above)->first != number(want)) return std::nullopt;
    map.push_back(std::prev(above)->second);
  }
  return map;
}

std::optional<std::vector<int>> RegisterMap(const Layout& from, const Layout& to,
                                            const std::vector<int64_t>& shape) {
  if (from.rank != to.rank || from.threads() != to.threads()) return std::nullopt;
  const int64_t from_regs = from.regs(), to_regs = to.regs(), threads = to.threads();
  auto inside = [&](const std::vector<int64_t>& c) {
    for (size_t i = 0; i < c.size(); ++i)
      if (c[i] >= shape[i]) return false;
    return true;
  };
  std::vector<int> map(static_cast<size_t>(to_regs), -1);
  std::vector<std::vector<int64_t>> from_coords(static_cast<size_t>(from_regs));
  for (int64_t r = 0; r < from_regs; ++r) from_coords[static_cast<size_t>(r)] = from.RegCoord(r);
  for (int64_t t = 0; t < threads; ++t) {
    const std::vector<int64_t> tf = from.ThreadCoord(t), tt = to.ThreadCoord(t);
    for (int64_t r = 0; r < to_regs; ++r) {
      std::vector<int64_t> want = to.RegCoord(r);
      for (size_t i = 0; i < want.size(); ++i) want[i] += tt[i];
      if (!inside(want)) continue;
      auto holds = [&](int64_t q) {
        const std::vector<int64_t>& c = from_coords[static_cast<size_t>(q)];
        for (size_t i = 0; i < c.size(); ++i)
          if (c[i] + tf[i] != want[i]) return false;
        return true;
      };
      int& found = map[static_cast<size_t>(r)];
      if (found >= 0) {
        if (!holds(found)) return std::nullopt;
        continue;
      }
      for (int64_t q = 0; q < from_regs && found < 0; ++q)
        if (holds(q)) found = static_cast<int>(q);
      if (found < 0) return std::nullopt;
    }
  }
  return map;
}

std::string ToText(const Layout& layout) {
  auto digits = [](const std::vector<LayoutDigit>& list) {
    std::string out;
    for (const LayoutDigit& d : list) {
      if (!out.empty()) out += ' ';
      out += d.dim < 0 ? fmt::format("{}:-", d.extent)
                       : fmt::format("{}:{}*{}", d.extent, d.dim, d.stride);
    }
    return out;
  };
  return fmt::format("t({}) r({})", digits(layout.thread), digits(layout.reg));
}

std::optional<Layout> ParseLayout(std::string_view text, int rank) {
  size_t pos = 0;
  auto skip = [&] {
    while (pos < text.size() && std::isspace(static_cast<unsigned char>(text[pos]))) ++pos;
  };
  auto eat = [&](char c) {
    skip();
    if (pos >= text.size() || text[pos] != c) return false;
    ++pos;
    return true;
  };
  auto number = [&](int64_t* out) {
    skip();
    auto [end, err] = std::from_chars(text.data() + pos, text.data() + text.size(), *out);
    if (err != std::errc() || *out < 0 || *out > (int64_t{1} << 40)) return false;
    pos = static_cast<size_t>(end - text.data());
    return true;
  };
  auto list = [&](char head, std::vector<LayoutDigit>* out) {
    if (!eat(head) || !eat('(')) return false;
    while (!eat(')')) {
      LayoutDigit d;
      if (!number(&d.extent) || d.extent < 1 || !eat(':')) return false;
      if (eat('-')) {
        d.dim = -1;
      } else {
        int64_t dim = 0;
        if (!number(&dim) || dim >= rank || !eat('*') || !number(&d.stride)) return false;
        d.dim = static_cast<int>(dim);
      }
      out->push_back(d);
      if (out->size() > 64) return false;
    }
    return true;
  };
  Layout out;
  out.rank = rank;
  if (!list('t', &out.thread) || !list('r', &out.reg)) return std::nullopt;
  skip();
  if (pos != text.size()) return std::nullopt;
  return out;
}

}  // namespace tilec::ir
