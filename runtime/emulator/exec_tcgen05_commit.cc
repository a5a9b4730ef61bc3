// tcgen05.commit: an mbarrier, or those of several CTAs, is told when what its thread issued before
// is complete.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/exec_tcgen05_async.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

namespace {

bool ArriveOnce(Warp& w, const Inst& i, int lane, Cta& cta, uint32_t offset) {
  auto it = cta.mbarriers.find(offset);
  const std::string where = fmt::format("the mbarrier at shared offset {} of CTA ({},{},{})",
                                        offset, cta.id[0], cta.id[1], cta.id[2]);
  if (cta.live_warps == 0)
    return Bad(w, i, lane, Rule::kT12, where + ": the CTA has exited"), false;
  if (it == cta.mbarriers.end())
    return Bad(w, i, lane, Rule::kT14, where + " is not initialised"), false;
  const MBarrierStep step = it->second.Arrive(1);
  if (!step.ok())
    return Bad(w, i, lane, Rule::kT14,
               fmt::format("{}: {} (phase {}, {} of {} arrivals pending)", where,
                           Describe(step.error), it->second.phase(), it->second.pending(),
                           it->second.expected())),
           false;
  ++cta.progress;
  if (step.completed)
    if (judge::Judge* j = JudgeOf(cta)) j->PhaseDone(cta.rank, offset);
  return true;
}

// The CTAs whose mbarrier a commit arrives at.
bool TargetsOf(Warp& w, const Inst& i, int l, std::vector<Cta*>* targets, uint32_t* offset) {
  Cta* cta = ResolveShared(w, Row<uint32_t>(w, i.o[0])[l], offset);
  if (cta == nullptr || *offset > cta->smem_bytes || 8 > cta->smem_bytes - *offset) {
    FailLane(w, i, l, kSharedOutOfBounds, "an mbarrier", 8, *offset,
             cta == nullptr ? 0 : cta->smem_bytes);
    return false;
  }
  if (*offset % 8 != 0) {
    FailLane(w, i, l, kMisaligned, "an mbarrier", 8, *offset, 8);
    return false;
  }
  if (!i.u[0]) {
    targets->push_back(cta);
    return true;
  }
  const uint32_t ranks = Row<uint32_t>(w, i.o[1])[l] & 0xffff;
  auto& ctas = w.cta->cluster->ctas;
  if (ctas.size() < 16 && ranks >> ctas.size() != 0)
    return Bad(w, i, l, Rule::kT10,
               fmt::format("the mask {:#x} names a CTA that is not in the cluster of {}", ranks,
                           ctas.size())),
           false;
  for (Cta& c : ctas)
    if (ranks >> c.rank & 1) targets->push_back(&c);
  return true;
}

}  // namespace

Step RunTensorCommit(Warp& w, const Inst& i, uint32_t mask) {
  TensorOf(*w.cta);
  JudgeLanes(w, i, mask, judge::Severity::kHint);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    std::vector<Cta*> targets;
    uint32_t offset = 0;
    if (!TargetsOf(w, i, l, &targets, &offset)) return Step::kError;
    auto message = std::make_shared<judge::Judge::TensorMessage>();
    if (w.judge != nullptr) {
      *message = w.judge->TensorCommit(w.judge_id, l, PcOf(w, i));
      for (const Cta* c : targets) w.judge->TensorCommitTo(*message, c->rank, offset);
    }
    const bool ok = Enqueue(w, l, [&w, &i, l, targets, offset, message] {
      for (Cta* c : targets) {
        if (w.judge != nullptr) w.judge->TensorArrive(*message, c->rank, offset);
        if (!ArriveOnce(w, i, l, *c, offset)) return false;
      }
      return true;
    });
    if (!ok) return Step::kError;
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
