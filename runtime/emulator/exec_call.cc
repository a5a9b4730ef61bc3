// Calls: lanes leave a frame each, run the function's code, come back where they left.
//
// A function has rows of registers of its own and a frame of local memory behind its caller's; what
// is handed over lies in the frames and is copied. A caller that may run again before the call is
// over (Program::Function::recursive) has its registers put aside. Lanes of one path may have been
// called from different places: at the return they part.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/services.h"

namespace tilec::runtime::emulator {
namespace {

constexpr size_t kDeepest = 4096;             // calls of a thread
constexpr uint64_t kMostSaved = 64ull << 20;  // values of a launch
constexpr int64_t kPerFrame = 4;              // what a frame costs beside them

uint64_t FrameOf(Warp& w, int32_t function, int lane) {
  if (function < 0) return 0;
  const Program& p = *w.cta->cluster->launch->program;
  return Row<uint64_t>(w, p.functions[static_cast<size_t>(function)].frame_row)[lane];
}

uint64_t FrameBytes(const Program& p, int32_t function) {
  if (function >= 0) return p.functions[static_cast<size_t>(function)].frame_bytes;
  return p.local_bytes - p.stack_bytes;
}

void Save(Warp& w, const Program::Function& f, int lane, CallFrame* frame) {
  for (auto [row, bits] : f.registers)
    frame->saved.push_back(bits == 1    ? Predicate(w, row) >> lane & 1
                           : bits == 32 ? Row<uint32_t>(w, row)[lane]
                                        : Row<uint64_t>(w, row)[lane]);
}

void Restore(Warp& w, const Program::Function& f, int lane, const CallFrame& frame) {
  for (size_t k = 0; k < frame.saved.size(); ++k) {
    const auto [row, bits] = f.registers[k];
    if (bits == 1) {
      uint32_t& p = Predicate(w, row);
      p = (p & ~(1u << lane)) | static_cast<uint32_t>(frame.saved[k]) << lane;
    } else if (bits == 32) {
      Row<uint32_t>(w, row)[lane] = static_cast<uint32_t>(frame.saved[k]);
    } else {
      Row<uint64_t>(w, row)[lane] = frame.saved[k];
    }
  }
}

bool SameSizes(const Program::Places& a, const Program::Places& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.second == y.second; });
}

// The function behind an address, −1 with a fault if it is none.
int32_t FunctionAt(Warp& w, const Inst& i, int lane, const Program::Call& call) {
  const Program& p = *w.cta->cluster->launch->program;
  const uint64_t address = Row<uint64_t>(w, i.o[0])[lane];
  const uint64_t number = (address - kCodeWindow) / 16 - 1;
  const bool one = address > kCodeWindow && address % 16 == 0 && number < p.function_of.size() &&
                   p.function_of[number] >= 0;
  if (!one) {
    FailLane(w, i, lane, kBadOperandValue, TextOf(w, i),
             fmt::format("{:#x} is the address of no function", address));
    return -1;
  }
  const int32_t f = p.function_of[number];
  const Program::Function& callee = p.functions[static_cast<size_t>(f)];
  if (SameSizes(callee.params, call.params) && SameSizes(callee.results, call.results)) return f;
  FailLane(w, i, lane, kBadOperandValue, TextOf(w, i),
           fmt::format("`{}` has other parameters than the prototype of the call", callee.name));
  return -1;
}

// The lanes of `mask` go on at `target`, others of the path at `next`.
void Part(Warp& w, uint32_t mask, uint32_t target, uint32_t next) {
  const uint32_t rest = w.active & ~mask;
  if (rest != 0) {
    Path other;
    other.pc = next, other.mask = rest;
    w.merge_pc = std::min(w.merge_pc, next);
    w.others.push_back(other);
  }
  w.active = mask;
  w.pc = target;
}

}  // namespace

uint8_t* InFrame(Warp& w, int32_t function, int lane, uint64_t offset) {
  const uint64_t size = w.cta->cluster->launch->program->local_bytes;
  return w.local + static_cast<uint64_t>(lane) * size + FrameOf(w, function, lane) + offset;
}

Step RunCall(Warp& w, const Inst& i, uint32_t mask) {
  const Program& p = *w.cta->cluster->launch->program;
  const Program::Call& call = p.calls[i.imm];
  if (call.service >= 0) return RunService(w, i, mask, call);
  int32_t f = call.function;
  uint32_t lanes = mask;
  if (f < 0) {  // those that call the same function as the first lane
    const int first = __builtin_ctz(mask);
    f = FunctionAt(w, i, first, call);
    if (f < 0) return Step::kError;
    const uint64_t* at = Row<uint64_t>(w, i.o[0]);
    ForLanes(mask, [&](int l) {
      if (at[l] != at[first]) lanes &= ~(1u << l);
    });
  }
  const Program::Function& callee = p.functions[static_cast<size_t>(f)];
  if (w.stacks == nullptr) w.stacks = std::make_unique<CallStacks>(&w.cta->cluster->launch->saved);
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    std::vector<CallFrame>& stack = w.stacks->lanes[l];
    const uint64_t frame = FrameOf(w, call.caller, l) + FrameBytes(p, call.caller);
    if (frame + callee.frame_bytes > p.local_bytes || stack.size() >= kDeepest ||
        w.stacks->all->load() > kMostSaved)
      return FailLane(w, i, l, kStackOverflow, callee.name, stack.size() + 1, p.local_bytes);
    CallFrame saved;
    saved.pc = w.pc;
    const uint8_t* local = w.local + static_cast<uint64_t>(l) * p.local_bytes;
    const uint64_t from = FrameOf(w, call.caller, l);
    if (call.caller >= 0) {
      const Program::Function& caller = p.functions[static_cast<size_t>(call.caller)];
      if (caller.recursive) Save(w, caller, l, &saved);
    }
    w.stacks->Count(static_cast<int64_t>(saved.saved.size()) + kPerFrame);
    stack.push_back(std::move(saved));
    Row<uint64_t>(w, callee.frame_row)[l] = frame;
    for (size_t k = 0; k < call.params.size(); ++k)
      memmove(const_cast<uint8_t*>(local) + frame + callee.params[k].first,
              local + from + call.params[k].first, call.params[k].second);
  }
  // Lanes whose guard is false stand behind the call, others that call something else in front.
  const uint32_t skip = w.active & ~mask;
  if (skip != 0 && lanes != mask) {
    Path other;
    other.pc = w.pc + 1, other.mask = skip;
    w.merge_pc = std::min(w.merge_pc, other.pc);
    w.others.push_back(other);
    w.active = mask;
  }
  Part(w, lanes, callee.start, lanes != mask ? w.pc : w.pc + 1);
  return Step::kJump;
}

Step RunReturn(Warp& w, const Inst& i, uint32_t mask) {
  const Program& p = *w.cta->cluster->launch->program;
  const auto function = static_cast<int32_t>(i.imm);
  const Program::Function& callee = p.functions[static_cast<size_t>(function)];
  const int first = __builtin_ctz(mask);
  const uint32_t site = w.stacks->lanes[first].back().pc;
  uint32_t lanes = 0;
  ForLanes(mask, [&](int l) { lanes |= w.stacks->lanes[l].back().pc == site ? 1u << l : 0; });
  const Program::Call& call = p.calls[p.code[site].imm];
  ForLanes(lanes, [&](int l) {
    uint8_t* local = w.local + static_cast<uint64_t>(l) * p.local_bytes;
    const uint64_t frame = FrameOf(w, function, l);
    CallFrame saved = std::move(w.stacks->lanes[l].back());
    w.stacks->lanes[l].pop_back();
    w.stacks->Count(-static_cast<int64_t>(saved.saved.size()) - kPerFrame);
    if (call.caller >= 0) Restore(w, p.functions[static_cast<size_t>(call.caller)], l, saved);
    const uint64_t to = FrameOf(w, call.caller, l);
    for (size_t k = 0; k < call.results.size(); ++k)
      memmove(local + to + call.results[k].first, local + frame + callee.results[k].first,
              call.results[k].second);
  });
  // The others return, or stay behind a `ret` of false guard, when their turn comes.
  const uint32_t waits = mask & ~lanes, stays = w.active & ~mask;
  if (stays != 0 && waits != 0) {
    Path other;
    other.pc = w.pc + 1, other.mask = stays;
    w.merge_pc = std::min(w.merge_pc, other.pc);
    w.others.push_back(other);
    w.active = mask;
  }
  Part(w, lanes, site + 1, waits != 0 ? w.pc : w.pc + 1);
  return Step::kJump;
}

}  // namespace tilec::runtime::emulator
