// Typed 4-byte ids and vectors indexed by them. Ids survive appends, references do not:
// a reference to an element lives within one statement that appends nothing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "support/check.h"

namespace tilec {

template <typename Tag>
struct Id {
  int32_t index = -1;
  constexpr Id() = default;
  constexpr explicit Id(int32_t i) : index(i) {}
  constexpr bool valid() const { return index >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

template <typename IdT, typename T>
class IdVector {
 public:
  IdT Add(T value) {
    items_.push_back(std::move(value));
    return IdT(static_cast<int32_t>(items_.size()) - 1);
  }
  T& operator[](IdT id) {
    CHECK(static_cast<size_t>(id.index) < items_.size(), "id out of range");
    return items_[id.index];
  }
  const T& operator[](IdT id) const {
    CHECK(static_cast<size_t>(id.index) < items_.size(), "id out of range");
    return items_[id.index];
  }
  int32_t size() const { return static_cast<int32_t>(items_.size()); }
  bool empty() const { return items_.empty(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<T> items_;
};

}  // namespace tilec

template <typename Tag>
struct std::hash<tilec::Id<Tag>> {
  size_t operator()(tilec::Id<Tag> id) const noexcept { return std::hash<int32_t>()(id.index); }
};
