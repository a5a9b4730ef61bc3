// SPDX-License-Identifier: Apache-2.0
#include "ir/reshaped_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace tilec::ir {
namespace {

// Row-major numbers are sums of a thread's part and a register's only where no coordinate leaves
// the tile.
bool Fits(const Layout& layout, const std::vector<int64_t>& shape) {
  return layout.rank == static_cast<int>(shape.size()) && layout.Extent() == shape;
}

int64_t Number(const std::vector<int64_t>& at, const std::vector<int64_t>& shape) {
  int64_t n = 0;
  for (size_t d = 0; d < shape.size(); ++d) n = n * shape[d] + at[d];
  return n;
}

// The dims of `fine` that make dim d of `coarse`: [first[d], first[d + 1]).
std::vector<size_t> Groups(const std::vector<int64_t>& coarse, const std::vector<int64_t>& fine) {
  std::vector<size_t> first = {0};
  size_t at = 0;
  for (int64_t extent : coarse) {
    int64_t product = 1;
    while (at < fine.size() && product < extent) product *= fine[at++];
    if (product != extent) return {};
    first.push_back(at);
  }
  if (at != fine.size()) return {};
  return first;
}

// A digit of a dim, cut at the extents of the dims that it is made of.
bool Cut(LayoutDigit digit, size_t first, size_t end, const std::vector<int64_t>& fine,
         std::vector<LayoutDigit>* out) {
  int64_t inside = 1;  // elements of the dims further in
  for (size_t d = end; d-- > first;) {
    const int64_t next = inside * fine[d];
    if (digit.stride < next && digit.extent > 1) {
      if (digit.stride % inside != 0 || next % digit.stride != 0) return false;
      const int64_t here = std::min(digit.extent, next / digit.stride);
      if (digit.extent % here != 0) return false;
      out->push_back({here, static_cast<int>(d), digit.stride / inside});
      digit.extent /= here;
      digit.stride *= here;
    }
    inside = next;
  }
  return digit.extent == 1;
}

}  // namespace

bool KeepsNumbers(const Function& fn, const Op& rearrange) {
  const Type &in = fn.type(rearrange.operands[0]), &out = fn.type(rearrange.results[0]);
  if (rearrange.i("first") != 0 || in.elements() != out.elements()) return false;
  int64_t stride = 1;
  for (size_t d = out.shape.size(); d-- > 0; stride *= out.shape[d])
    if (out.shape[d] != 1 && rearrange.ints("strides")[d] != stride) return false;
  return true;
}

std::optional<Layout> CutLayout(const Layout& layout, const std::vector<int64_t>& coarse,
                                const std::vector<int64_t>& fine) {
  const std::vector<size_t> first = Groups(coarse, fine);
  if (first.empty() || !Fits(layout, coarse)) return std::nullopt;
  Layout out;
  out.rank = static_cast<int>(fine.size());
  for (const auto& [from, to] : {std::pair(&layout.thread, &out.thread), {&layout.reg, &out.reg}})
    for (const LayoutDigit& digit : *from) {
      if (digit.dim < 0 || digit.extent == 1) {
        to->push_back(digit);
        continue;
      }
      const auto d = static_cast<size_t>(digit.dim);
      if (!Cut(digit, first[d], first[d + 1], fine, to)) return std::nullopt;
    }
  if (!Fits(out, fine)) return std::nullopt;
  std::vector<int64_t> same(fine.size());
  std::iota(same.begin(), same.end(), 0);
  return PermuteLayout(out, same);  // digits that go on are one
}

std::optional<std::vector<int>> ReshapedRegisters(const Layout& from,
                                                  const std::vector<int64_t>& from_shape,
                                                  const Layout& to,
                                                  const std::vector<int64_t>& to_shape) {
  if (!Fits(from, from_shape) || !Fits(to, to_shape) || from.threads() != to.threads())
    return std::nullopt;
  for (int64_t t = 0; t < from.threads(); ++t)
    if (Number(from.ThreadCoord(t), from_shape) != Number(to.ThreadCoord(t), to_shape))
      return std::nullopt;
  std::map<int64_t, int> at;
  for (int64_t r = 0; r < from.regs(); ++r)
    at.emplace(Number(from.RegCoord(r), from_shape), static_cast<int>(r));
  std::vector<int> map;
  for (int64_t r = 0; r < to.regs(); ++r) {
    const auto it = at.find(Number(to.RegCoord(r), to_shape));
    if (it == at.end()) return std::nullopt;
    map.push_back(it->second);
  }
  return map;
}

}  // namespace tilec::ir
