// Shadow of global memory, for all clusters of a launch: sparse pages, exact to the byte.
//
// Writes are kept per block of 16 bytes, reads as a list of ranges per page, because most pages
// are only ever read. A list has a limit; beyond it old reads are forgotten (a race may be missed,
// none is invented). Pages also know which bytes were ever written, by the host or by a kernel.
//
// The shadow of a page takes up to some twenty times the page. It has a budget; beyond it Full()
// says so, new pages are not kept, and the launch must end soon (LaunchJudge::Full).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <map>
#include <memory>
#include <unordered_map>

#include "runtime/emulator/judge/shadow.h"

namespace tilec::runtime::judge {

// Bytes of an address space that have been written, as disjoint ranges.
class WrittenRanges {
 public:
  void Add(uint64_t begin, uint64_t end);
  void Remove(uint64_t begin, uint64_t end);
  bool Covers(uint64_t begin, uint64_t end) const;
  // Calls f(begin, end) for the parts inside [begin, end).
  template <typename F>
  void Inside(uint64_t begin, uint64_t end, F&& f) const {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin()) --it;
    for (; it != ranges_.end() && it->first < end; ++it)
      if (it->second > begin) f(std::max(begin, it->first), std::min(end, it->second));
  }

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin → end
};

struct GlobalMark {
  Mark mark;
  uint64_t cluster = 0;
};

class GlobalShadow {
 public:
  static constexpr uint64_t kPage = 4096;
  static constexpr size_t kMaxReads = 512;  // remembered per page

  explicit GlobalShadow(WrittenRanges* written) : written_(written) {}

  // Bytes of host memory, about; ~0: no limit.
  void Limit(uint64_t bytes) { limit_ = bytes; }
  bool Full() const { return used_ > limit_; }

  // `ordered(mark)`: is it ordered before this access? `clash(mark, writes, address)` if not.
  template <typename Ordered, typename Clash>
  void Write(uint64_t address, uint64_t bytes, GlobalMark m, Ordered&& ordered, Clash&& clash) {
    Pieces(address, bytes, [&](Page& page, uint64_t base, uint32_t begin, uint32_t end) {
      for (size_t k = 0; k < page.reads.size();) {
        ReadRange& r = page.reads[k];
        if (r.begin >= end || r.end <= begin) {
          ++k;
          continue;
        }
        if (!ordered(r.mark)) clash(r.mark, false, base + std::max(begin, r.begin));
        if (r.begin >= begin && r.end <= end && !Outlives(r.mark, m)) {
          r = page.reads.back();
          page.reads.pop_back();
          used_ -= sizeof(ReadRange);
        } else {
          ++k;
        }
      }
      if (page.cells == nullptr) {
        page.cells = std::make_unique<std::array<Cell, kPage / 16>>();
        used_ += sizeof(*page.cells);
      }
      Blocks(begin, end, [&](uint32_t block, uint16_t mask) {
        Cell& c = (*page.cells)[block];
        m.mark.bytes = mask;
        if (c.first.mark.bytes & mask)
          if (!ordered(c.first)) clash(c.first, true, base + block * 16);
        if (!Outlives(c.first, m)) c.first.mark.bytes &= static_cast<uint16_t>(~mask);
        if (c.more != nullptr) {
          for (GlobalMark& o : *c.more) {
            if ((o.mark.bytes & mask) && !ordered(o)) clash(o, true, base + block * 16);
            if (!Outlives(o, m)) o.mark.bytes &= static_cast<uint16_t>(~mask);
          }
          constexpr size_t kMost = 64;  // of a block; the oldest are forgotten
          if (c.more->size() > kMost) c.more->front().mark.bytes = 0;
          used_ -= sizeof(GlobalMark) *
                   std::erase_if(*c.more, [](const GlobalMark& o) { return o.mark.bytes == 0; });
        }
        if (c.first.mark.bytes == 0) {
          c.first = m;
        } else if (Same(c.first, m)) {
          c.first.mark.bytes |= mask;
          c.first.mark.lanes |= m.mark.lanes;
          c.first.mark.site |= Mark::kIrregular << Mark::kShapeShift;
        } else {
          if (c.more == nullptr) c.more = std::make_unique<std::vector<GlobalMark>>();
          c.more->push_back(m);
          used_ += sizeof(GlobalMark);
        }
      });
      if (!page.all_written) SetWritten(page, begin, end);
    });
  }

  // Also calls `fresh(address)` for the first byte read that nobody wrote.
  template <typename Ordered, typename Clash, typename Fresh>
  void Read(uint64_t address, uint64_t bytes, GlobalMark m, Ordered&& ordered, Clash&& clash,
            Fresh&& fresh) {
    Pieces(address, bytes, [&](Page& page, uint64_t base, uint32_t begin, uint32_t end) {
      if (page.cells != nullptr)
        Blocks(begin, end, [&](uint32_t block, uint16_t mask) {
          Cell& c = (*page.cells)[block];
          if ((c.first.mark.bytes & mask) && !ordered(c.first))
            clash(c.first, true, base + block * 16);
          if (c.more != nullptr)
            for (GlobalMark& o : *c.more)
              if ((o.mark.bytes & mask) && !ordered(o)) clash(o, true, base + block * 16);
        });
      if (!page.all_written)
        if (uint32_t at = FirstUnwritten(page, begin, end); at != end) fresh(base + at);
      Remember(page, begin, end, m);
    });
  }

  // Marks of writes that overlap [address, address + bytes).
  template <typename F>
  void EachWrite(uint64_t address, uint64_t bytes, F&& f) {
    Pieces(address, bytes, [&](Page& page, uint64_t, uint32_t begin, uint32_t end) {
      if (page.cells == nullptr) return;
      Blocks(begin, end, [&](uint32_t block, uint16_t mask) {
        Cell& c = (*page.cells)[block];
        if (c.first.mark.bytes & mask) f(c.first);
        if (c.more != nullptr)
          for (GlobalMark& o : *c.more)
            if (o.mark.bytes & mask) f(o);
      });
    });
  }

  // What kernels wrote becomes part of the ranges given at the start.
  void Finish();

 private:
  struct Cell {
    GlobalMark first;
    std::unique_ptr<std::vector<GlobalMark>> more;
  };
  struct ReadRange {
    uint32_t begin = 0, end = 0;
    GlobalMark mark;
  };
  struct Page {
    uint64_t base = 0;
    std::unique_ptr<std::array<Cell, kPage / 16>> cells;
    std::vector<ReadRange> reads;
    size_t oldest = 0;  // of a full list
    bool all_written = false;
    std::bitset<kPage> written;
    bool changed = false;
  };

  static bool Outlives(const GlobalMark& old, const GlobalMark& now) {
    return old.cluster == now.cluster && OutlivedBy(old.mark, now.mark);
  }
  static bool Same(const GlobalMark& a, const GlobalMark& b) {
    return a.cluster == b.cluster && a.mark.component == b.mark.component &&
           a.mark.epoch == b.mark.epoch && a.mark.site == b.mark.site;
  }
  template <typename F>
  static void Blocks(uint32_t begin, uint32_t end, F&& f) {
    for (uint32_t b = begin / 16; b * 16 < end; ++b) {
      uint32_t lo = std::max(begin, b * 16) - b * 16, hi = std::min(end, b * 16 + 16) - b * 16;
      f(b, static_cast<uint16_t>(((1u << hi) - 1) & ~((1u << lo) - 1)));
    }
  }
  template <typename F>
  void Pieces(uint64_t address, uint64_t bytes, F&& f) {
    for (uint64_t end = address + bytes; address < end;) {
      uint64_t base = address / kPage * kPage;
      uint64_t stop = std::min(end, base + kPage);
      f(At(base), base, static_cast<uint32_t>(address - base), static_cast<uint32_t>(stop - base));
      address = stop;
    }
  }
  Page& At(uint64_t base) {
    Page*& cached = cache_[base / kPage % cache_.size()];
    if (cached == nullptr || cached->base != base) cached = &Make(base);
    return *cached;
  }
  Page& Make(uint64_t base);
  static void SetWritten(Page& page, uint32_t begin, uint32_t end);
  static uint32_t FirstUnwritten(const Page& page, uint32_t begin, uint32_t end);
  void Remember(Page& page, uint32_t begin, uint32_t end, const GlobalMark& m);

  WrittenRanges* written_;
  uint64_t used_ = 0, limit_ = ~0ull;
  Page beyond_;  // stands for every page that there is no room for
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  std::array<Page*, 1024> cache_{};
};

}  // namespace tilec::runtime::judge
