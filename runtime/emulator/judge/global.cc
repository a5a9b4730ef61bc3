// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/global.h"

namespace tilec::runtime::judge {

void WrittenRanges::Add(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  auto it = ranges_.upper_bound(begin);
  if (it != ranges_.begin() && std::prev(it)->second >= begin) {
    --it;
    begin = it->first;
  }
  while (it != ranges_.end() && it->first <= end) {
    end = std::max(end, it->second);
    it = ranges_.erase(it);
  }
  ranges_[begin] = end;
}

void WrittenRanges::Remove(uint64_t begin, uint64_t end) {
  auto it = ranges_.upper_bound(begin);
  if (it != ranges_.begin()) --it;
  while (it != ranges_.end() && it->first < end) {
    auto [b, e] = *it;
    if (e <= begin) {
      ++it;
      continue;
    }
    it = ranges_.erase(it);
    if (b < begin) ranges_[b] = begin;
    if (e > end) it = ranges_.emplace(end, e).first;
  }
}

bool WrittenRanges::Covers(uint64_t begin, uint64_t end) const {
  auto it = ranges_.upper_bound(begin);
  if (it == ranges_.begin()) return false;
  --it;
  return it->first <= begin && it->second >= end;
}

GlobalShadow::Page& GlobalShadow::Make(uint64_t base) {
  if (Full() && pages_.find(base) == pages_.end()) {
    beyond_ = {};
    beyond_.base = base;
    beyond_.all_written = true;
    return beyond_;
  }
  std::unique_ptr<Page>& page = pages_[base];
  if (page != nullptr) return *page;
  page = std::make_unique<Page>();
  used_ += sizeof(Page);
  page->base = base;
  page->all_written = written_ == nullptr || written_->Covers(base, base + kPage);
  if (!page->all_written)
    written_->Inside(base, base + kPage, [&](uint64_t begin, uint64_t end) {
      SetWritten(*page, static_cast<uint32_t>(begin - base), static_cast<uint32_t>(end - base));
    });
  page->changed = false;
  return *page;
}

void GlobalShadow::SetWritten(Page& page, uint32_t begin, uint32_t end) {
  for (uint32_t k = begin; k < end; ++k) page.written.set(k);
  page.changed = true;
}

uint32_t GlobalShadow::FirstUnwritten(const Page& page, uint32_t begin, uint32_t end) {
  while (begin < end && page.written.test(begin)) ++begin;
  return begin;
}

void GlobalShadow::Remember(Page& page, uint32_t begin, uint32_t end, const GlobalMark& m) {
  size_t n = page.reads.size();
  for (size_t k = n; k > 0 && n - k < 4; --k) {
    ReadRange& r = page.reads[k - 1];
    if (!Same(r.mark, m)) continue;
    if (begin > r.end || end < r.begin) continue;
    r.begin = std::min(r.begin, begin);
    r.end = std::max(r.end, end);
    r.mark.mark.lanes |= m.mark.lanes;
    return;
  }
  ReadRange r;
  r.begin = begin;
  r.end = end;
  r.mark = m;
  if (n < kMaxReads) {
    page.reads.push_back(r);
    used_ += sizeof(ReadRange);
    return;
  }
  page.oldest %= n;
  page.reads[page.oldest++] = r;
}

void GlobalShadow::Finish() {
  if (written_ == nullptr) return;
  for (auto& [base, page] : pages_) {
    if (!page->changed) continue;
    for (uint32_t k = 0; k < kPage;) {
      while (k < kPage && !page->written.test(k)) ++k;
      uint32_t begin = k;
      while (k < kPage && page->written.test(k)) ++k;
      if (begin < k) written_->Add(base + begin, base + k);
    }
  }
}

}  // namespace tilec::runtime::judge
