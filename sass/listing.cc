// Code as blocks and loops. Loops are natural ones: an edge back to a block that dominates its
// source. Of them those that contain products and no smaller loop that does are kept.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "sass/internal.h"

namespace tilec::sass {

namespace {

// Immediate dominators, by intersection along a reverse post-order until nothing moves.
class Dominators {
 public:
  explicit Dominators(const std::vector<Block>& blocks)
      : blocks_(blocks), number_(blocks.size(), -1), parent_(blocks.size(), -1) {
    std::vector<std::vector<int>> before(blocks.size());
    for (size_t b = 0; b < blocks.size(); ++b)
      for (int next : blocks[b].next) before[static_cast<size_t>(next)].push_back(int(b));
    Order();
    if (blocks.empty()) return;
    parent_[0] = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int b : order_) {
        if (b == 0) continue;
        int parent = -1;
        for (int p : before[static_cast<size_t>(b)])
          if (parent_[static_cast<size_t>(p)] >= 0) parent = parent < 0 ? p : Meet(parent, p);
        if (parent == parent_[static_cast<size_t>(b)]) continue;
        parent_[static_cast<size_t>(b)] = parent;
        moved = true;
      }
    }
  }

  bool Reached(int b) const { return parent_[static_cast<size_t>(b)] >= 0; }
  bool Dominates(int a, int b) const {
    while (number_[static_cast<size_t>(b)] > number_[static_cast<size_t>(a)])
      b = parent_[static_cast<size_t>(b)];
    return a == b;
  }

 private:
  void Order() {
    std::vector<std::pair<int, size_t>> path;
    std::vector<bool> seen(blocks_.size(), false);
    if (!blocks_.empty()) {
      path.emplace_back(0, 0);
      seen[0] = true;
    }
    while (!path.empty()) {
      auto& [b, at] = path.back();
      const std::vector<int>& next = blocks_[static_cast<size_t>(b)].next;
      if (at == next.size()) {
        order_.push_back(b);
        path.pop_back();
        continue;
      }
      const int to = next[at++];
      if (seen[static_cast<size_t>(to)]) continue;
      seen[static_cast<size_t>(to)] = true;
      path.emplace_back(to, 0);
    }
    std::reverse(order_.begin(), order_.end());
    for (size_t i = 0; i < order_.size(); ++i)
      number_[static_cast<size_t>(order_[i])] = static_cast<int>(i);
  }

  int Meet(int a, int b) const {
    while (a != b) {
      int& later = number_[static_cast<size_t>(a)] > number_[static_cast<size_t>(b)] ? a : b;
      later = parent_[static_cast<size_t>(later)];
    }
    return a;
  }

  const std::vector<Block>& blocks_;
  std::vector<int> order_, number_, parent_;
};

// Blocks of a loop from its header on, each behind those that lead to it.
std::vector<int> InOrder(const std::vector<Block>& blocks, const std::set<int>& loop, int header) {
  std::vector<int> order;
  std::set<int> seen = {header};
  std::vector<std::pair<int, std::vector<int>>> path;
  // The way that is walked last comes first in the end.
  const auto enter = [&](int b) {
    std::vector<int> next;
    for (int to : blocks[static_cast<size_t>(b)].next)
      if (loop.count(to)) next.push_back(to);
    std::sort(next.begin(), next.end());
    path.emplace_back(b, std::move(next));
  };
  enter(header);
  while (!path.empty()) {
    std::vector<int>& next = path.back().second;
    if (next.empty()) {
      order.push_back(path.back().first);
      path.pop_back();
      continue;
    }
    const int to = next.back();
    next.pop_back();
    if (seen.insert(to).second) enter(to);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

void FindLoops(Listing* listing) {
  const std::vector<Block>& blocks = listing->blocks;
  const Dominators dominators(blocks);
  std::vector<std::vector<int>> before(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b)
    for (int next : blocks[b].next) before[static_cast<size_t>(next)].push_back(int(b));
  std::map<int, std::set<int>> loops;
  for (size_t b = 0; b < blocks.size(); ++b)
    for (int header : blocks[b].next) {
      if (!dominators.Reached(int(b)) || !dominators.Dominates(header, int(b))) continue;
      std::set<int>& loop = loops[header];
      loop.insert(header);
      std::vector<int> work = {int(b)};
      while (!work.empty()) {
        const int x = work.back();
        work.pop_back();
        if (!dominators.Reached(x) || !loop.insert(x).second) continue;
        for (int p : before[static_cast<size_t>(x)]) work.push_back(p);
      }
    }
  const auto has_product = [&](const std::set<int>& loop) {
    return std::any_of(loop.begin(), loop.end(), [&](int b) {
      const Block& block = blocks[static_cast<size_t>(b)];
      return std::any_of(listing->code.begin() + block.begin, listing->code.begin() + block.end,
                         [](const Instr& i) { return i.product; });
    });
  };
  for (auto it = loops.begin(); it != loops.end();)
    it = has_product(it->second) ? std::next(it) : loops.erase(it);
  for (const auto& [header, loop] : loops) {
    const bool inner = std::none_of(loops.begin(), loops.end(), [&](const auto& other) {
      return other.first != header && other.second.size() < loop.size() &&
             std::includes(loop.begin(), loop.end(), other.second.begin(), other.second.end());
    });
    if (inner) listing->loops.push_back({header, InOrder(blocks, loop, header)});
  }
}

}  // namespace

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::vector<std::string> SplitOperands(std::string_view text) {
  std::vector<std::string> operands;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == '{' || c == '(') ++depth;
    if (c == ']' || c == '}' || c == ')') --depth;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    const std::string_view operand = Trimmed(text.substr(begin, i - begin));
    if (!operand.empty()) operands.emplace_back(operand);
    begin = i + 1;
  }
  return operands;
}

void Cut(const std::vector<LabelAt>& labels, Listing* listing) {
  const std::vector<Instr>& code = listing->code;
  const int n = static_cast<int>(code.size());
  std::map<std::string, int> at;
  std::set<int> starts = {0};
  for (const LabelAt& label : labels) {
    at.emplace(label.name, label.instr);
    starts.insert(label.instr);
  }
  for (int i = 0; i < n; ++i)
    if (!code[static_cast<size_t>(i)].target.empty() || !code[static_cast<size_t>(i)].falls_through)
      starts.insert(i + 1);
  std::map<int, int> block_at;
  for (auto it = starts.begin(); it != starts.end() && *it < n; ++it) {
    const auto next = std::next(it);
    block_at[*it] = static_cast<int>(listing->blocks.size());
    listing->blocks.push_back({*it, next == starts.end() ? n : std::min(*next, n), {}});
  }
  for (size_t b = 0; b < listing->blocks.size(); ++b) {
    Block& block = listing->blocks[b];
    const Instr& last = code[static_cast<size_t>(block.end - 1)];
    // Several targets stand behind each other, with a blank between.
    for (std::string_view rest = last.target; !rest.empty();) {
      const size_t blank = rest.find(' ');
      const auto target = at.find(std::string(rest.substr(0, blank)));
      if (target != at.end() && target->second < n) block.next.push_back(block_at[target->second]);
      rest.remove_prefix(blank == std::string_view::npos ? rest.size() : blank + 1);
    }
    if (last.falls_through && block.end < n) block.next.push_back(block_at[block.end]);
  }
  FindLoops(listing);
}

}  // namespace tilec::sass
