// What every tcgen05 instruction of one thread shares: how a fault of it is said, the queue of its
// thread, and the lanes that the judge hears of.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/emulator/exec_tcgen05.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

using judge::Rule;

inline Step Bad(Warp& w, const Inst& i, int lane, Rule rule, const std::string& why) {
  return FailRule(w, i, kBadOperandValue, rule, fmt::format("`{}`: {}", TextOf(w, i), why), lane);
}

// Happens now, or when the schedule says so; in the order of issue either way.
inline bool Enqueue(Warp& w, int lane, std::function<bool()> op) {
  Cluster& cluster = *w.cta->cluster;
  if (cluster.launch->options->landing == Landing::kEarly) return op();
  std::shared_ptr<TensorCta> tensor = w.cta->tensor;
  TensorQueue& queue = tensor->queues[{w.index, lane}];
  queue.ops.push_back(std::move(op));
  cluster.in_flight.push_back({[tensor, &queue] { return queue.Step(); }});
  return true;
}

// The CTAs that an operation works on: this one, or the pair, the even one first.
inline bool PartsOf(Warp& w, const Inst& i, int lane, uint32_t group, Cta** ctas) {
  ctas[0] = w.cta, ctas[1] = nullptr;
  TensorOf(*w.cta);
  if (group == 1) return true;
  Cta* peer = PeerOf(*w.cta);
  const char* why = peer == nullptr ? "the CTA is in no pair: the cluster needs an even size"
                    : peer->live_warps == 0 ? "the other CTA of the pair has exited"
                                            : nullptr;
  if (why != nullptr) return Bad(w, i, lane, Rule::kT10, why), false;
  ctas[0] = w.cta->rank % 2 == 0 ? w.cta : peer;
  ctas[1] = w.cta->rank % 2 == 0 ? peer : w.cta;
  TensorOf(*peer);
  return true;
}

inline TensorPart PartOf(Cta* cta) {
  if (cta == nullptr) return {};
  return {&TensorOf(*cta).memory, cta->smem, cta->smem_bytes};
}

// What one thread issues is issued by several.
inline void JudgeLanes(Warp& w, const Inst& i, uint32_t mask, judge::Severity severity) {
  if (w.judge == nullptr || (mask & (mask - 1)) == 0) return;
  w.judge->Say(Rule::kT11, severity, ActOf({w, i, mask}),
               fmt::format("lanes {:#x} issue the operation, each of them once", mask),
               "let one lane issue it, see `elect.sync`");
}

}  // namespace tilec::runtime::emulator
