// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/shadow.h"

namespace tilec::runtime::judge {
namespace {

int LaneOf(const Mark& m, int byte) {
  return __builtin_ctz(m.lanes) + ((byte - __builtin_ctz(m.bytes)) >> m.shape());
}

}  // namespace

bool SameLane(const Mark& a, const Mark& b, bool a_writes) {
  bool single = (a.lanes & (a.lanes - 1)) == 0 && (b.lanes & (b.lanes - 1)) == 0;
  if (single) return a.lanes == b.lanes;
  if ((a.lanes & b.lanes) == 0) return false;
  const auto many = [](const Mark& m, uint32_t shape) {
    return m.shape() == shape && (m.lanes & (m.lanes - 1)) != 0;
  };
  // Nothing certain is known of irregular ones: no finding.
  if (many(a, Mark::kIrregular) || many(b, Mark::kIrregular)) return true;
  // Bytes that all lanes touch are some other lane's, unless all who touch them now wrote them.
  const bool a_shared = many(a, Mark::kShared), b_shared = many(b, Mark::kShared);
  if (a_shared && (a_writes || b_shared) && (b.lanes & ~a.lanes) == 0) return true;
  if (a_shared || b_shared) return false;
  auto lane = [](const Mark& m, int byte) {
    return (m.lanes & (m.lanes - 1)) == 0 ? __builtin_ctz(m.lanes) : LaneOf(m, byte);
  };
  for (uint32_t both = a.bytes & b.bytes; both != 0; both &= both - 1) {
    int byte = __builtin_ctz(both);
    if (lane(a, byte) != lane(b, byte)) return false;
  }
  return true;
}

bool SharedShadow::Adds(Mark* old, const Mark& m) {
  bool one_lane = old->lanes == m.lanes && (m.lanes & (m.lanes - 1)) == 0;
  if (!SameKind(*old, m) || old->epoch != m.epoch || (old->pc() != m.pc() && !one_lane))
    return false;
  if (!one_lane && (old->lanes != m.lanes || old->bytes != m.bytes))
    old->site |= Mark::kIrregular << Mark::kShapeShift;
  old->lanes |= m.lanes;
  old->bytes |= m.bytes;
  return true;
}

namespace {

// Takes bytes off a mark. Which lane has which byte is counted from the first one: lanes in front
// of what is left go too, and where half of a lane's bytes are gone nothing certain is known.
void TakeOff(Mark* m, uint16_t bytes) {
  const auto left = static_cast<uint16_t>(m->bytes & ~bytes);
  const bool many = (m->lanes & (m->lanes - 1)) != 0;
  if (left != 0 && many && m->shape() < Mark::kShared) {
    const auto gone = static_cast<uint32_t>(__builtin_ctz(left) - __builtin_ctz(m->bytes));
    if (gone % (1u << m->shape()) != 0)
      m->site |= Mark::kIrregular << Mark::kShapeShift;
    else
      for (uint32_t k = gone >> m->shape(); k > 0; --k) m->lanes &= m->lanes - 1;
  }
  m->bytes = left;
}

}  // namespace

void SharedShadow::InsertWrite(Marks* marks, const Mark& m) {
  auto uncover = [&](std::vector<Mark>& v) {
    for (Mark& o : v)
      if (!OutlivedBy(o, m)) TakeOff(&o, m.bytes);
    std::erase_if(v, [](const Mark& o) { return o.bytes == 0; });
    constexpr size_t kMost = 64;  // of a block; the oldest are forgotten
    if (v.size() > kMost) v.erase(v.begin());
  };
  uncover(marks->reads);
  uncover(marks->writes);
  for (Mark& o : marks->writes)
    if (Adds(&o, m)) return;
  marks->writes.push_back(m);
}

void SharedShadow::InsertRead(Marks* marks, const Mark& m, const Epoch* clock) {
  for (Mark& o : marks->reads)
    if (SameKind(o, m) && o.epoch < m.epoch && o.epoch <= clock[o.component]) TakeOff(&o, m.bytes);
  std::erase_if(marks->reads, [](const Mark& o) { return o.bytes == 0; });
  for (Mark& o : marks->reads)
    if (Adds(&o, m)) return;
  marks->reads.push_back(m);
}

SharedShadow::Marks SharedShadow::Take(Block& b) {
  if (b.more != 0) return std::move(long_[b.more - 1]);
  Marks marks;
  if (b.has_write) marks.writes.push_back(b.write);
  for (uint32_t k = 0; k < b.read_count; ++k) marks.reads.push_back(b.reads[k]);
  return marks;
}

void SharedShadow::Put(Block& b, Marks marks) {
  if (marks.writes.size() <= 1 && marks.reads.size() <= 2) {
    if (b.more != 0) {
      free_.push_back(b.more);
      b.more = 0;
    }
    b.has_write = !marks.writes.empty();
    if (b.has_write) b.write = marks.writes[0];
    b.read_count = static_cast<uint8_t>(marks.reads.size());
    for (size_t k = 0; k < marks.reads.size(); ++k) b.reads[k] = marks.reads[k];
    return;
  }
  if (b.more == 0) {
    if (free_.empty()) {
      long_.emplace_back();
      b.more = static_cast<uint32_t>(long_.size());
    } else {
      b.more = free_.back();
      free_.pop_back();
    }
  }
  long_[b.more - 1] = std::move(marks);
}

}  // namespace tilec::runtime::judge
