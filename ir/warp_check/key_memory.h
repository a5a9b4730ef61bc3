// What the writer of keys (key.h) needs for one state, kept from one to the next: a proof makes
// thousands of keys, each of some hundred rows and names, and would spend a quarter of its time
// asking for memory.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tilec::ir::warp_check {

// Numbers in a row: most are small and take one byte, the others nine.
class KeyText {
 public:
  template <typename T>
  void operator()(T v) {
    const auto wide = static_cast<int64_t>(v);
    if (wide < -kShort || wide >= kShort - 1 || size_ == out_.size()) return Long(wide);
    out_[size_++] = static_cast<char>(wide);
  }
  // As they are: whoever reads the text knows that so many follow.
  void Bits(const uint64_t* bits, size_t count) {
    MakeRoom(8 * count);
    std::memcpy(out_.data() + size_, bits, 8 * count);
    size_ += 8 * count;
  }
  std::string_view text() const { return {out_.data(), size_}; }
  std::string Take() { return std::string(text()); }
  void Clear() { size_ = 0; }

 private:
  static constexpr int64_t kShort = 128;
  static constexpr size_t kMost = 9, kFirst = 64;
  static constexpr char kLong = 127;
  void MakeRoom(size_t bytes) {
    if (out_.size() < size_ + bytes) out_.resize(2 * out_.size() + kFirst + bytes);
  }
  void Long(int64_t wide) {
    MakeRoom(kMost);
    char* const at = out_.data() + size_;
    if (wide >= -kShort && wide < kShort - 1) {
      *at = static_cast<char>(wide);
      ++size_;
      return;
    }
    *at = kLong;
    std::memcpy(at + 1, &wide, 8);
    size_ += kMost;
  }
  std::string out_;
  size_t size_ = 0;  // written
};

// Texts by number, the first is 1.
class TextNumbers {
 public:
  int32_t Of(std::string_view text) {
    if (const auto it = numbers_.find(text); it != numbers_.end()) return it->second;
    const auto number = static_cast<int32_t>(numbers_.size()) + 1;
    numbers_.emplace(text, number);
    return number;
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> numbers_;
};

// Counts between the same two that somebody knows are known to the same: to a set.
struct KnowingSet {
  int32_t above, most;  // counts n with above < n <= most
  int64_t number;       // in the order of the key
  size_t first;         // its bits
};

// Names of one state (naming.h), by atom and by form; those of no state in particular stay.
struct NameMemory {
  static constexpr uint32_t kAlways = UINT32_MAX;
  struct Name {
    uint32_t at = 0;  // of the state with this number
    uint64_t name = 0;
  };
  struct Frame {
    uint32_t at = 0;
    bool over = false;
    int64_t base = 0, slowest = 0;
  };
  struct Age {
    uint32_t at = 0;
    bool stale = false;
  };
  // Of which iterations a form speaks, however deep inside, and inside ops of which at the latest.
  struct Spoken {
    bool known = false;
    std::vector<int32_t> frames;
    std::vector<std::pair<int32_t, int64_t>> youngest;
  };
  uint32_t now = 0;
  std::vector<Spoken> spoken;  // by form
  std::vector<Name> atoms, forms;
  std::vector<Frame> frames;  // by atom
  std::vector<Age> ages;      // by form

  template <typename T>
  [[gnu::noinline]] static void Grow(std::vector<T>& all, size_t at) {
    all.resize(at + at / 2 + 64);
  }
  template <typename T>
  static T& At(std::vector<T>& all, int32_t id) {
    const auto at = static_cast<size_t>(id);
    if (at >= all.size()) Grow(all, at);
    return all[at];
  }
};

struct KeyMemory {
  NameMemory names;
  KeyText out, record;
  std::vector<KeyText> told;
  std::vector<int32_t> rows;
  std::vector<uint64_t> members, bits;
  std::vector<std::vector<KnowingSet>> sets;
  std::vector<size_t> with_sets;
  std::vector<uint32_t> live, lives;  // the number of the state in which it was

  void Clear(size_t components) {
    rows.clear(), members.clear(), bits.clear();
    for (const size_t c : with_sets) sets[c].clear();
    with_sets.clear();
    sets.resize(components);
    out.Clear();
  }
};

}  // namespace tilec::ir::warp_check
