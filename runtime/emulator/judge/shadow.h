// Shadow of shared memory: who touched which byte last.
//
// One record per block of 16 bytes, exact to the byte: every mark carries a mask of the bytes it
// is about, so marks of different bytes live side by side. The usual block has one write and up to
// two readers inline; more go into a list. Reads ordered before a later read by the same component
// are dropped, as in FastTrack: whoever is ordered after the later one is ordered after both.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/emulator/judge/agent.h"

namespace tilec::runtime::judge {

// One access, remembered.
struct Mark {
  Epoch epoch = 0;
  uint32_t lanes = 0;  // of a generic access
  uint32_t site = 0;   // pc, and the flags below
  Component component = 0;
  uint16_t bytes = 0;  // of the block

  static constexpr uint32_t kPcMask = (1u << 24) - 1;
  // How the bytes belong to the lanes: lane (first + byte >> shape), or irregular.
  // Or all lanes touch all of the bytes.
  static constexpr uint32_t kShapeShift = 24, kShapeMask = 7u << 24, kShared = 6, kIrregular = 7;
  static constexpr uint32_t kStrong = 1u << 27;  // relaxed or stronger
  static constexpr uint32_t kWide = 1u << 28;    // … at cluster scope or wider
  static constexpr uint32_t kGpu = 1u << 29;     // … at gpu scope
  static constexpr uint32_t kVolatile = 1u << 30;
  static constexpr uint32_t kAsync = 1u << 31;  // async proxy

  uint32_t pc() const { return site & kPcMask; }
  uint32_t shape() const { return (site & kShapeMask) >> kShapeShift; }
  bool async() const { return (site & kAsync) != 0; }
  bool strong() const { return (site & kStrong) != 0; }
  // How far a strong access reaches; 0: it is weak.
  int strength() const { return strong() ? 1 + ((site & kWide) != 0) + ((site & kGpu) != 0) : 0; }
};
static_assert(sizeof(Mark) == 16);

// Is there more to be said against `old` than against a later access of the same agent to the same
// bytes? Others may race with a weak write, or one of smaller scope, and not with the atomic that
// came after it.
inline bool OutlivedBy(const Mark& old, const Mark& now) {
  return old.component == now.component && old.strength() < now.strength() &&
         old.async() == now.async();
}

// Do all bytes that both are about belong to the same lane? `a` came first.
bool SameLane(const Mark& a, const Mark& b, bool a_writes = false);

struct alignas(64) Block {
  Mark write;
  Mark reads[2];
  uint16_t init = 0;  // bytes ever written
  uint8_t read_count = 0;
  uint8_t barrier = 0;  // halves that are a live mbarrier
  uint8_t layout = 0;   // 1 + log2(swizzle / 16) of the tensor copy that wrote it; 0: other
  bool has_write = false;
  uint32_t more = 0;  // index + 1 into the list of long blocks
};
static_assert(sizeof(Block) == 64);

class SharedShadow {
 public:
  void Start(uint32_t bytes) {
    blocks_.assign((bytes + 15) / 16, Block{});
    long_.clear();
    free_.clear();
  }
  size_t size() const { return blocks_.size(); }
  Block& at(size_t k) { return blocks_[k]; }

  // The access of mark `m` to block `k`. `clash(old, old_writes)` is asked about every overlapping
  // mark that the clock does not order; `fresh` about bytes nobody wrote.
  template <typename Clash>
  void Write(size_t k, const Mark& m, const Epoch* clock, Clash&& clash) {
    Block& b = blocks_[k];
    bool quick = b.more == 0 && Fits(b, m) &&
                 (!b.has_write || b.write.epoch <= clock[b.write.component]) &&
                 (b.read_count < 1 || b.reads[0].epoch <= clock[b.reads[0].component]) &&
                 (b.read_count < 2 || b.reads[1].epoch <= clock[b.reads[1].component]);
    b.init |= m.bytes;
    if (quick) {
      b.write = m;
      b.has_write = true;
      b.read_count = 0;
      return;
    }
    WriteSlowly(b, m, clock, clash);
  }

  template <typename Clash>
  void Read(size_t k, const Mark& m, const Epoch* clock, Clash&& clash) {
    Block& b = blocks_[k];
    if (b.more == 0 && (!b.has_write || b.write.epoch <= clock[b.write.component])) {
      if (b.read_count == 0) {
        b.reads[0] = m;
        b.read_count = 1;
        return;
      }
      for (uint32_t r = 0; r < b.read_count; ++r) {
        if (!Replaces(m, b.reads[r], clock)) continue;
        b.reads[r] = m;
        return;
      }
      if (b.read_count == 1) {
        if (Adds(&b.reads[0], m)) return;
        b.reads[1] = m;
        b.read_count = 2;
        return;
      }
    }
    ReadSlowly(b, m, clock, clash);
  }

  // All marks of a block, for reports and exits: f(mark, writes).
  template <typename F>
  void Each(size_t k, F&& f) {
    Marks marks = Take(blocks_[k]);
    for (const Mark& m : marks.writes) f(m, true);
    for (const Mark& m : marks.reads) f(m, false);
    Put(blocks_[k], std::move(marks));
  }
  // Forgets everything about the block but that it was written.
  void Forget(size_t k) { Put(blocks_[k], {}); }

 private:
  struct Marks {
    std::vector<Mark> writes, reads;
  };

  // May `m` take the place of all marks of the block?
  static bool Fits(const Block& b, const Mark& m) {
    if (m.strong() && ((b.has_write && OutlivedBy(b.write, m)) ||
                       (b.read_count > 0 && OutlivedBy(b.reads[0], m)) ||
                       (b.read_count > 1 && OutlivedBy(b.reads[1], m))))
      return false;
    if (m.bytes == 0xffff) return true;
    uint32_t others = b.has_write ? b.write.bytes : 0;
    if (b.read_count > 0) others |= b.reads[0].bytes;
    if (b.read_count > 1) others |= b.reads[1].bytes;
    return (others & ~uint32_t{m.bytes}) == 0;
  }
  static bool SameKind(const Mark& a, const Mark& b) {
    return a.component == b.component && ((a.site ^ b.site) & (Mark::kAsync | Mark::kStrong)) == 0;
  }
  static bool Replaces(const Mark& m, const Mark& old, const Epoch* clock) {
    if (!SameKind(m, old) || (old.bytes & ~m.bytes) != 0) return false;
    if (old.epoch == m.epoch) return old.lanes == m.lanes;
    return old.epoch <= clock[old.component];
  }
  // Marks of one component in one epoch, by one instruction or one lane, become one.
  static bool Adds(Mark* old, const Mark& m);

  template <typename Clash>
  void WriteSlowly(Block& b, const Mark& m, const Epoch* clock, Clash&& clash) {
    Marks marks = Take(b);
    for (Mark& o : marks.writes)
      if ((o.bytes & m.bytes) && o.epoch > clock[o.component]) clash(o, true);
    for (Mark& o : marks.reads)
      if ((o.bytes & m.bytes) && o.epoch > clock[o.component]) clash(o, false);
    InsertWrite(&marks, m);
    Put(b, std::move(marks));
  }
  template <typename Clash>
  void ReadSlowly(Block& b, const Mark& m, const Epoch* clock, Clash&& clash) {
    Marks marks = Take(b);
    for (Mark& o : marks.writes)
      if ((o.bytes & m.bytes) && o.epoch > clock[o.component]) clash(o, true);
    InsertRead(&marks, m, clock);
    Put(b, std::move(marks));
  }
  static void InsertWrite(Marks* marks, const Mark& m);
  static void InsertRead(Marks* marks, const Mark& m, const Epoch* clock);
  Marks Take(Block& b);
  void Put(Block& b, Marks marks);

  std::vector<Block> blocks_;
  std::vector<Marks> long_;
  std::vector<uint32_t> free_;
};

}  // namespace tilec::runtime::judge
