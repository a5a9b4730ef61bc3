// A map of few entries: pairs in a vector, sorted by key. States of the walk hold some dozens of
// them, and are copied wherever control may go two ways, so an entry is to cost no allocation of
// its own. As std::map but for references, which end with the next entry.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "support/check.h"

namespace tilec::ir::warp_check {

template <typename K, typename V>
class FlatMap {
 public:
  using Entry = std::pair<K, V>;
  using iterator = typename std::vector<Entry>::iterator;
  using const_iterator = typename std::vector<Entry>::const_iterator;

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  iterator find(const K& key) { return At(entries_, key); }
  const_iterator find(const K& key) const { return At(entries_, key); }
  size_t count(const K& key) const { return find(key) != end(); }
  const V& at(const K& key) const {
    const auto it = find(key);
    CHECK(it != end(), "the key has an entry");
    return it->second;
  }
  std::pair<iterator, bool> try_emplace(const K& key, V value) {
    const iterator it = Lower(entries_, key);
    if (it != end() && it->first == key) return {it, false};
    return {entries_.emplace(it, key, std::move(value)), true};
  }
  V& operator[](const K& key) {
    const iterator it = Lower(entries_, key);
    if (it != end() && it->first == key) return it->second;
    return entries_.emplace(it, key, V{})->second;
  }
  iterator erase(iterator it) { return entries_.erase(it); }
  void erase(const K& key) {
    if (const iterator it = find(key); it != end()) entries_.erase(it);
  }
  template <typename Which>
  void EraseIf(const Which& which) {
    std::erase_if(entries_, which);
  }
  void EraseAll(const std::vector<K>& sorted) {
    if (sorted.empty() || entries_.empty()) return;
    auto key = sorted.begin();
    auto from = Lower(entries_, sorted.front());
    while (from != entries_.end() && !(sorted.back() < from->first)) {  // the first that goes
      while (*key < from->first) ++key;
      if (*key == from->first) break;
      ++from;
    }
    if (from == entries_.end() || sorted.back() < from->first) return;
    auto kept = from++;
    for (; from != entries_.end(); ++from) {
      while (key != sorted.end() && *key < from->first) ++key;
      if (key != sorted.end() && *key == from->first) continue;
      *kept++ = std::move(*from);
    }
    entries_.erase(kept, entries_.end());
  }

 private:
  template <typename Entries>
  static auto Lower(Entries& entries, const K& key) {
    return std::lower_bound(entries.begin(), entries.end(), key,
                            [](const Entry& entry, const K& k) { return entry.first < k; });
  }
  template <typename Entries>
  static auto At(Entries& entries, const K& key) {
    const auto it = Lower(entries, key);
    return it != entries.end() && it->first == key ? it : entries.end();
  }

  std::vector<Entry> entries_;
};

}  // namespace tilec::ir::warp_check
