// A program's text as arguments about it read it: in the order of the text, or along the edges
// between statements. In the order of the text a branch ahead is passed if its target comes before
// the end of the argument: all that any path does between is looked at. A branch back is passed if
// it is to a label behind the start: a loop of waits.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::mutation {

struct Line {
  std::string guard, opcode, operands, label;
  bool Is(std::string_view prefix) const { return opcode.substr(0, prefix.size()) == prefix; }
};

inline Line Read(const std::string& text) {
  Line out;
  size_t a = text.find_first_not_of(" \t");
  if (a == text.npos || text.substr(a, 2) == "//") return out;
  if (text.find(';') == text.npos) {
    const size_t colon = text.find(':');
    if (colon != text.npos) out.label = text.substr(a, colon - a);
    return out;
  }
  if (text[a] == '@') {
    const size_t end = text.find_first_of(" \t", a);
    out.guard = text.substr(a, end - a);
    a = text.find_first_not_of(" \t", end);
  }
  const size_t end = text.find_first_of(" \t;", a);
  out.opcode = text.substr(a, end - a);
  if (text[end] != ';') out.operands = text.substr(end + 1, text.find(';', end) - end - 1);
  const size_t first = out.operands.find_first_not_of(" \t");
  if (first != std::string::npos) out.operands.erase(0, first);
  return out;
}

inline std::vector<std::string> Registers(const std::string& text) {
  std::vector<std::string> all;
  for (size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1)) {
    size_t end = at + 1;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                                 text[end] == '_' || text[end] == '.'))
      ++end;
    all.push_back(text.substr(at, end - at));
  }
  return all;
}

// The operands that an instruction reads; of a store all.
inline std::string Sources(const Line& l) {
  if (l.Is("st.") || l.Is("tcgen05.st")) return l.operands;
  const size_t comma = l.operands.find(l.operands[0] == '{' ? '}' : ',');
  return comma == std::string::npos ? "" : l.operands.substr(comma + 1);
}

inline std::string AddressIn(const std::string& operands) {
  const size_t a = operands.find('[');
  return a == std::string::npos ? "" : operands.substr(a, operands.find(']', a) + 1 - a);
}

// Does it tell anybody something, or hand tensor memory on?
inline bool Tells(const Line& l) {
  return l.Is("mbarrier.arrive") || l.Is("bar.sync") || l.Is("barrier.") || l.Is("bar.arrive") ||
         l.Is("tcgen05.mma") || l.Is("tcgen05.cp") || l.Is("tcgen05.commit") ||
         l.Is("tcgen05.dealloc") || l.Is("ret") || l.Is("exit") || l.Is("call");
}

class Text {
 public:
  explicit Text(const std::string& ptx) {
    std::istringstream in(ptx);
    for (std::string line; std::getline(in, line);) lines_.push_back(Read(line));
    std::set<std::string> twice;
    for (int k = 1; k <= last(); ++k) {
      const Line& l = at(k);
      if (!l.label.empty()) labels_[l.label] = k;
      const std::vector<std::string> named = Registers(l.operands);
      if (l.opcode != "add.s32" || named.empty()) continue;
      const size_t number = l.operands.rfind(' ') + 1;
      const bool known = number < l.operands.size() &&
                         std::isdigit(static_cast<unsigned char>(l.operands[number])) != 0;
      const int64_t place = known ? std::atoll(l.operands.c_str() + number) : -1;
      const auto [it, fresh] = sums_.try_emplace(named[0], place);
      if (!fresh && it->second != place) it->second = -1;
    }
    before_.resize(lines_.size() + 2);
    for (int k = 1; k <= last(); ++k)
      for (const int next : After(k)) before_[static_cast<size_t>(next)].push_back(k);
    for (int k = 1; k <= last(); ++k)
      if (at(k).Is("mbarrier.arrive.expect_tx") && PlaceOf(k) >= 0) copied_.insert(PlaceOf(k));
  }
  size_t size() const { return lines_.size(); }
  int last() const { return static_cast<int>(lines_.size()); }

  // Statements that may come right behind one, or in front of it.
  std::vector<int> After(int number) const {
    const Line& l = at(number);
    std::vector<int> out;
    const bool always = l.guard.empty();
    if (l.Is("bra"))
      if (const auto to = labels_.find(l.operands); to != labels_.end()) out.push_back(to->second);
    if (number < last() && !(always && (l.Is("bra") || l.Is("ret") || l.Is("exit"))))
      out.push_back(number + 1);
    return out;
  }
  const std::vector<int>& Before(int number) const { return before_[static_cast<size_t>(number)]; }
  // All that may be executed between one statement and those of a kind in front of it, which stop.
  template <typename Stops>
  std::set<int> BackTo(int number, const Stops& stops) const {
    std::set<int> met;
    std::vector<int> todo = Before(number);
    while (!todo.empty()) {
      const int k = todo.back();
      todo.pop_back();
      if (stops(k) || !met.insert(k).second) continue;
      todo.insert(todo.end(), Before(k).begin(), Before(k).end());
    }
    return met;
  }
  // The number that is added to make the address that a statement names: of shared memory, an
  // object's place. -1: it is not told.
  int64_t PlaceOf(int number) const {
    const std::vector<std::string> named = Registers(AddressIn(at(number).operands));
    if (named.size() != 1) return -1;
    const auto sum = sums_.find(named[0]);
    return sum == sums_.end() ? -1 : sum->second;
  }
  // Places at which copies arrive: mbarriers that are told to expect bytes.
  const std::set<int64_t>& copied() const { return copied_; }
  const Line& at(int number) const { return lines_[static_cast<size_t>(number) - 1]; }

  // Registers that the loads in front of a wait fill, back to the wait or the block's start.
  std::set<std::string> LoadedBefore(int number) const {
    std::set<std::string> all;
    for (int k = number - 1; k > 0; --k) {
      const Line& l = at(k);
      if (!l.label.empty() || l.Is("bra") || l.Is("tcgen05.wait::ld")) break;
      if (!l.Is("tcgen05.ld")) continue;
      for (std::string& r : Registers(l.operands.substr(0, l.operands.find('}'))))
        all.insert(std::move(r));
    }
    return all;
  }
  std::set<std::string> StoredBefore(int number) const {
    std::set<std::string> all;
    for (int k = number - 1; k > 0; --k) {
      const Line& l = at(k);
      if (!l.label.empty() || l.Is("bra") || l.Is("tcgen05.wait::st")) break;
      if (l.Is("tcgen05.st")) all.insert(AddressIn(l.operands));
    }
    return all;
  }

 private:
  std::vector<Line> lines_;
  std::vector<std::vector<int>> before_;
  std::map<std::string, int> labels_;
  std::map<std::string, int64_t> sums_;
  std::set<int64_t> copied_;
};

// Branches that were met and labels they go to.
class Paths {
 public:
  // False: it leaves what is looked at.
  bool Pass(const Line& l) {
    if (!l.label.empty()) {
      passed_.insert(l.label);
      ahead_.erase(l.label);
    }
    if (l.Is("bra") && passed_.count(l.operands) == 0) ahead_.insert(l.operands);
    return !l.Is("brx");
  }
  bool together() const { return ahead_.empty(); }

 private:
  std::set<std::string> passed_, ahead_;
};

}  // namespace tilec::mutation
