// A forward checker: lemma by lemma, two watched literals per clause, nothing clever.
//
// SPDX-License-Identifier: Apache-2.0
#include "certify/drat.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <unordered_map>
#include <vector>

namespace tilec::certify {

namespace {

class Checker {
 public:
  explicit Checker(int variables) { Grow(variables); }

  // False: the clauses so far are contradictory by unit propagation alone.
  bool Add(std::vector<int> clause) {
    std::sort(clause.begin(), clause.end());
    clause.erase(std::unique(clause.begin(), clause.end()), clause.end());
    for (size_t i = 0; i < clause.size(); ++i) Grow(std::abs(clause[i]));
    for (int lit : clause)
      if (std::binary_search(clause.begin(), clause.end(), -lit)) return true;  // tautology
    const int id = static_cast<int>(clauses_.size());
    by_hash_[Hash(clause)].push_back(id);
    clauses_.push_back(clause);
    std::vector<int>& c = clauses_.back();
    // Literals that are not false go first: they are watched.
    std::stable_partition(c.begin(), c.end(), [&](int lit) { return Value(lit) >= 0; });
    if (c.empty() || Value(c[0]) < 0) return false;
    if (c.size() >= 2) {
      Watch(c[0], id);
      Watch(c[1], id);
    }
    if (c.size() == 1 || Value(c[1]) < 0) {
      if (Value(c[0]) == 0) Assign(c[0]);
      return Propagate();
    }
    return true;
  }

  void Delete(std::vector<int> clause) {
    std::sort(clause.begin(), clause.end());
    clause.erase(std::unique(clause.begin(), clause.end()), clause.end());
    auto it = by_hash_.find(Hash(clause));
    if (it == by_hash_.end()) return;
    for (size_t i = 0; i < it->second.size(); ++i) {
      const int id = it->second[i];
      std::vector<int> sorted = clauses_[id];
      std::sort(sorted.begin(), sorted.end());
      if (sorted != clause) continue;
      // A clause that made a literal true stays: forgetting it would forget the literal's reason.
      const bool reason = std::count_if(clauses_[id].begin(), clauses_[id].end(),
                                        [&](int lit) { return Value(lit) >= 0; }) <= 1;
      if (reason) return;
      clauses_[id].clear();  // its watches are dropped when they are met
      clauses_[id].shrink_to_fit();
      it->second.erase(it->second.begin() + static_cast<int64_t>(i));
      return;
    }
  }

  // The lemma follows by unit propagation of its negation.
  bool Follows(const std::vector<int>& lemma) {
    const size_t mark = trail_.size();
    bool conflict = false;
    for (int lit : lemma) {
      Grow(std::abs(lit));
      if (Value(lit) > 0) conflict = true;
      if (Value(lit) == 0) Assign(-lit);
    }
    conflict = conflict || !Propagate();
    Undo(mark);
    return conflict;
  }

  // Every resolvent on the lemma's first literal follows.
  bool FollowsByResolution(const std::vector<int>& lemma) {
    if (lemma.empty()) return false;
    for (size_t id = 0; id < clauses_.size(); ++id) {
      const std::vector<int> other = clauses_[id];
      if (std::find(other.begin(), other.end(), -lemma[0]) == other.end()) continue;
      std::vector<int> resolvent = lemma;
      bool tautology = false;
      for (int lit : other) {
        if (lit == -lemma[0]) continue;
        tautology = tautology || std::find(lemma.begin(), lemma.end(), -lit) != lemma.end();
        resolvent.push_back(lit);
      }
      if (!tautology && !Follows(resolvent)) return false;
    }
    return true;
  }

  int64_t propagations() const { return propagations_; }

 private:
  static uint64_t Hash(const std::vector<int>& sorted) {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int lit : sorted) h = (h ^ static_cast<uint32_t>(lit)) * 0x100000001b3u;
    return h;
  }
  void Grow(int variable) {
    if (static_cast<size_t>(variable) < value_.size()) return;
    value_.resize(variable + 1, 0);
    watches_.resize(2 * static_cast<size_t>(variable) + 2);
  }
  static size_t Index(int lit) { return 2 * static_cast<size_t>(std::abs(lit)) + (lit < 0); }
  int Value(int lit) const { return lit > 0 ? value_[lit] : -value_[-lit]; }
  void Watch(int lit, int id) { watches_[Index(lit)].push_back(id); }
  void Assign(int lit) {
    value_[std::abs(lit)] = lit > 0 ? 1 : -1;
    trail_.push_back(lit);
  }
  void Undo(size_t mark) {
    while (trail_.size() > mark) {
      value_[std::abs(trail_.back())] = 0;
      trail_.pop_back();
    }
    head_ = std::min(head_, mark);
  }

  bool Propagate() {
    while (head_ < trail_.size()) {
      const int gone = -trail_[head_++];
      ++propagations_;
      std::vector<int>& watching = watches_[Index(gone)];
      size_t kept = 0;
      for (size_t i = 0; i < watching.size(); ++i) {
        const int id = watching[i];
        std::vector<int>& c = clauses_[id];
        if (c.size() < 2) continue;  // deleted
        if (c[0] == gone) std::swap(c[0], c[1]);
        if (Value(c[0]) > 0) {
          watching[kept++] = id;
          continue;
        }
        size_t next = 2;
        while (next < c.size() && Value(c[next]) < 0) ++next;
        if (next < c.size()) {
          std::swap(c[1], c[next]);
          Watch(c[1], id);
          continue;
        }
        watching[kept++] = id;
        if (Value(c[0]) < 0) {
          while (++i < watching.size()) watching[kept++] = watching[i];
          watching.resize(kept);
          return false;
        }
        Assign(c[0]);
      }
      watching.resize(kept);
    }
    return true;
  }

  std::vector<std::vector<int>> clauses_, watches_;
  std::vector<int8_t> value_;
  std::vector<int> trail_;
  size_t head_ = 0;
  std::unordered_map<uint64_t, std::vector<int>> by_hash_;
  int64_t propagations_ = 0;
};

}  // namespace

DratCheck CheckDrat(const Cnf& cnf, std::string_view proof) {
  DratCheck result;
  Checker checker(cnf.variables);
  for (const std::vector<int>& clause : cnf.clauses)
    if (!checker.Add(clause)) {
      result.accepted = true;
      return result;
    }
  size_t line_number = 0;
  while (!proof.empty()) {
    ++line_number;
    const size_t end = std::min(proof.find('\n'), proof.size());
    std::string_view line = proof.substr(0, end);
    proof.remove_prefix(std::min(end + 1, proof.size()));
    if (line.empty() || line.front() == 'c') continue;
    const bool deletion = line.front() == 'd';
    if (deletion) line.remove_prefix(1);
    std::vector<int> lits;
    bool ended = false;
    while (!line.empty() && !ended) {
      if (line.front() == ' ') {
        line.remove_prefix(1);
        continue;
      }
      int lit = 0;
      const auto [next, error] = std::from_chars(line.data(), line.data() + line.size(), lit);
      if (error != std::errc() || lit > cnf.variables || lit < -cnf.variables) break;
      line.remove_prefix(static_cast<size_t>(next - line.data()));
      if (lit == 0)
        ended = true;
      else
        lits.push_back(lit);
    }
    if (!ended) {
      result.problem = fmt::format("line {} of the proof cannot be read", line_number);
      return result;
    }
    if (deletion) {
      ++result.deletions;
      checker.Delete(std::move(lits));
      continue;
    }
    ++result.lemmas;
    if (!checker.Follows(lits) && !checker.FollowsByResolution(lits)) {
      result.problem = fmt::format("the lemma in line {} does not follow", line_number);
      return result;
    }
    const bool empty = lits.empty();
    if (!checker.Add(std::move(lits)) || empty) {
      result.accepted = true;
      result.propagations = checker.propagations();
      return result;
    }
  }
  result.problem = "the proof ends without the empty clause";
  result.propagations = checker.propagations();
  return result;
}

}  // namespace tilec::certify
