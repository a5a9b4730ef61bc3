// tcgen05 instructions of one thread: mma, cp, shift, commit. Each is checked when it is issued,
// goes to the end of its thread's queue, and happens when the execution schedule takes it
// (tcgen05_inst.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/emulator/exec_tcgen05.h"
#include "runtime/emulator/exec_tcgen05_async.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

namespace {

uint8_t LayoutOf(const TensorDescriptor& d) {
  return emulator::LayoutOf(d.mode == 0 ? 0 : d.span());
}

// The judge is told of an operand in the shared memory of a CTA.
template <typename Each>
void JudgeChunks(const judge::AsyncOp& op, const Cta& cta, const TensorDescriptor& d,
                 uint32_t per_row, bool columns, Each each) {
  std::vector<uint32_t> offsets;
  each([&](uint32_t offset) { offsets.push_back(std::min(offset, cta.smem_bytes)); });
  const uint8_t layout = d.mode == 1 ? 0 : LayoutOf(d);
  JudgeOf(cta)->AsyncChunks(op, cta.rank,
                            {offsets.data(), offsets.size(), per_row, columns, layout});
}

// ---- mma ----

struct Issue {
  const TensorInst* inst = nullptr;
  MmaTask task;
  MmaOperands operands;
  Cta* ctas[2] = {};
};

bool DescriptorOf(const Issuer& by, const MmaTask& task, bool operand_b, uint64_t bits,
                  TensorDescriptor* out) {
  std::string error;
  if (DecodeTensorDescriptor(bits, out, &error) &&
      SwizzleFits(task, operand_b ? task.transpose_b : task.transpose_a, *out, &error))
    return true;
  Bad(by.w, by.i, by.lane, Rule::kT8,
      fmt::format("descriptor of {} ({:#018x}): {}", operand_b ? "B" : "A", bits, error));
  return false;
}

// Forms that nobody's documents describe completely: refused when they are met.
const char* NotModelled(const MmaTask& t) {
  const bool odd = t.a == MmaFormat::kE2m3 || t.a == MmaFormat::kE3m2 || t.a == MmaFormat::kE2m1;
  if (t.form.a_in_tensor && odd && t.form.kind != MmaKind::kMxf4 &&
      t.form.kind != MmaKind::kMxf4nvf4)
    return "A of 4 or 6 bits in tensor memory: the ISA has its containers in figures only";
  if (IsScaled(t.form.kind) && t.form.group == 2 && t.m == 128)
    return "M = 128 of a pair with scale factors: their layout is not published";
  return nullptr;
}

bool ReadMma(Warp& w, const Inst& i, int l, Issue* out) {
  const Program& program = *w.cta->cluster->launch->program;
  const TensorInst& inst = program.tensor[i.imm];
  out->inst = &inst;
  MmaOperands& o = out->operands;
  std::string error;
  const uint32_t idesc = Row<uint32_t>(w, i.o[3])[l];
  if (!DecodeMmaTask(inst.form, idesc, &out->task, &error))
    return Bad(w, i, l, Rule::kT8,
               fmt::format("instruction descriptor {:#010x}: {}", idesc, error)),
           false;
  const MmaTask& task = out->task;
  if (const char* why = NotModelled(task)) return Bad(w, i, l, Rule::kX1, why), false;
  if (!PartsOf(w, i, l, inst.group, out->ctas)) return false;
  o.d = TensorAddress::Of(Row<uint32_t>(w, i.o[0])[l]);
  if (inst.form.a_in_tensor)
    o.a = TensorAddress::Of(Row<uint32_t>(w, i.o[1])[l]);
  else if (!DescriptorOf({w, i, l}, task, false, Row<uint64_t>(w, i.o[1])[l], &o.a_desc))
    return false;
  if (!DescriptorOf({w, i, l}, task, true, Row<uint64_t>(w, i.o[2])[l], &o.b_desc)) return false;
  if (IsScaled(task.form.kind)) {
    o.scale_a = TensorAddress::Of(Row<uint32_t>(w, i.o[4])[l]);
    o.scale_b = TensorAddress::Of(Row<uint32_t>(w, i.o[5])[l]);
  }
  if (i.u[3] && Row<uint64_t>(w, i.o[5])[l] != 0)
    return Bad(w, i, l, Rule::kX1, "a zero-column mask other than 0 is not modelled"), false;
  const uint32_t p = i.u[1] != 0 ? (i.u[1] == 2 ? ~0u : 0u) : Predicate(w, i.o[6]);
  o.accumulate = ((i.u[2] ? ~p : p) >> l & 1) != 0;
  o.scale_c = inst.scale_c;
  if (inst.masked) {
    const uint32_t* list = &program.lists[i.o[4]];
    for (uint32_t k = 0; k < list[0] && k < 8; ++k)
      o.disabled[k] = Row<uint32_t>(w, list[1 + k])[l];
  }
  if (!CheckMmaAddresses(task, o, &error)) return Bad(w, i, l, Rule::kT8, error), false;
  for (const TensorBox& b : BoxesOf(task, o)) {
    const char* what = b.use == TensorBox::Use::kResult    ? "D"
                       : b.use == TensorBox::Use::kOperand ? "A"
                                                           : "a scale factor matrix";
    if (b.use == TensorBox::Use::kResult && b.column + b.columns > kTensorColumns)
      return Bad(w, i, l, Rule::kT8,
                 fmt::format("D of {} columns at column {} reaches past column 511", b.columns,
                             b.column)),
             false;
    if (!TensorInside(w, i, *out->ctas[b.cta], b.column, b.columns, what)) return false;
  }
  return true;
}

// Products into one accumulator of one shape are pipelined.
uint64_t KeyOf(const Issue& m) {
  return m.operands.d.column | m.operands.d.lane << 10 | uint64_t{m.task.n} << 20 |
         uint64_t{m.task.m} << 32 | uint64_t{static_cast<uint8_t>(m.task.form.kind)} << 44 |
         uint64_t{m.task.form.ws} << 48;
}

judge::AsyncOp JudgeMma(Warp& w, const Inst& i, int lane, const Issue& m) {
  judge::Judge& j = *w.judge;
  using judge::TensorAct;
  const uint64_t key = KeyOf(m);
  const judge::AsyncOp op = j.TensorOp(w.judge_id, lane, PcOf(w, i), TensorAct::kMma, key);
  for (uint32_t c = 0; c < m.inst->group; ++c) {
    const Cta& cta = *m.ctas[c];
    if (&cta != w.cta) j.TensorPeer(op, cta.rank);
    for (int b = 0; b < 2; ++b) {
      if (b == 0 && m.task.form.a_in_tensor) continue;
      const TensorDescriptor& d = b ? m.operands.b_desc : m.operands.a_desc;
      JudgeChunks(op, cta, d, ChunksPerRow(m.task, b), b ? m.task.transpose_b : m.task.transpose_a,
                  [&](auto f) { ForEachMmaChunk(m.task, b, d, f); });
    }
  }
  for (const TensorBox& b : BoxesOf(m.task, m.operands))
    j.TensorTouch(op, TensorAct::kMma, key,
                  {m.ctas[b.cta]->rank, b.lane, b.lanes, b.column, b.columns,
                   b.use == TensorBox::Use::kResult});
  return op;
}

// Is everything that the product reads of tensor memory written?
void JudgeFresh(Warp& w, const Inst& i, int lane, const Issue& m) {
  for (const TensorBox& b : BoxesOf(m.task, m.operands)) {
    if (b.use == TensorBox::Use::kResult && !m.operands.accumulate) continue;
    const TensorMemory& memory = TensorOf(*m.ctas[b.cta]).memory;
    for (uint32_t c = b.column; c < b.column + b.columns; ++c) {
      uint32_t lanes = b.lanes;
      if (b.use == TensorBox::Use::kScale) lanes = kTensorLanes;
      if (memory.Written(c, b.lane, lanes)) continue;
      w.judge->TensorFresh(
          w.judge_id, 1u << lane, PcOf(w, i), m.ctas[b.cta]->rank,
          fmt::format("lanes [{}, {}) of column {} ({})", b.lane, b.lane + lanes, c,
                      b.use == TensorBox::Use::kResult    ? "D"
                      : b.use == TensorBox::Use::kOperand ? "A"
                                                          : "scale factors"));
      break;
    }
  }
}

void Poison(const Issue& m, int by) {
  for (const TensorBox& b : BoxesOf(m.task, m.operands)) {
    if (b.use != TensorBox::Use::kResult) continue;
    std::vector<uint16_t>& counts = TensorOf(*m.ctas[b.cta]).poisoned;
    if (counts.empty()) counts.resize(size_t{kTensorColumns} * kTensorLanes);
    for (uint32_t c = b.column; c < b.column + b.columns; ++c)
      for (uint32_t l = b.lane; l < b.lane + b.lanes; ++l)
        counts[size_t{c} * kTensorLanes + l] =
            static_cast<uint16_t>(counts[size_t{c} * kTensorLanes + l] + by);
  }
}

bool Happen(Warp& w, const Inst& i, int lane, const Issue& m) {
  const EmulatorOptions& options = *w.cta->cluster->launch->options;
  if (options.landing == Landing::kPoison) Poison(m, -1);
  if (w.judge != nullptr) JudgeFresh(w, i, lane, m);
  const TensorPart parts[2] = {PartOf(m.ctas[0]), PartOf(m.ctas[1])};
  std::string error;
  bool scales_differ = false;
  if (!RunMma(m.task, m.operands, parts, options.arithmetic, &error, &scales_differ)) {
    Bad(w, i, lane, Rule::kT9, error);
    return false;
  }
  if (!scales_differ) return true;
  Bad(w, i, lane, Rule::kT13,
      "the scale factors in the four quarters of the lanes are not the same: copy them with "
      "`.32x128b.warpx4`");
  return false;
}

}  // namespace

Step RunTensorMma(Warp& w, const Inst& i, uint32_t mask) {
  JudgeLanes(w, i, mask, judge::Severity::kError);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    Issue m;
    if (!ReadMma(w, i, l, &m)) return Step::kError;
    if (w.judge != nullptr) JudgeMma(w, i, l, m);
    if (w.cta->cluster->launch->options->landing == Landing::kPoison) Poison(m, 1);
    if (!Enqueue(w, l, [&w, &i, l, m] { return Happen(w, i, l, m); })) return Step::kError;
  }
  return Step::kNext;
}

Step RunTensorCp(Warp& w, const Inst& i, uint32_t mask) {
  const TensorInst& inst = w.cta->cluster->launch->program->tensor[i.imm];
  JudgeLanes(w, i, mask, judge::Severity::kError);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    Cta* ctas[2];
    if (!PartsOf(w, i, l, inst.group, ctas)) return Step::kError;
    const TensorAddress to = TensorAddress::Of(Row<uint32_t>(w, i.o[0])[l]);
    const uint64_t bits = Row<uint64_t>(w, i.o[1])[l];
    TensorDescriptor from;
    std::string error;
    if (!DecodeTensorDescriptor(bits, &from, &error))
      return Bad(w, i, l, Rule::kT8, fmt::format("descriptor ({:#018x}): {}", bits, error));
    if (from.mode == 1)
      return Bad(w, i, l, Rule::kX1, "a copy with swizzle 1 (atoms of 32 bytes) is not modelled");
    if (to.lane != 0)
      return Bad(w, i, l, Rule::kT8,
                 fmt::format("the address names lane {}, 0 is needed", to.lane));
    judge::AsyncOp op;
    if (w.judge != nullptr)
      op = w.judge->TensorOp(w.judge_id, l, PcOf(w, i), judge::TensorAct::kCopy, to.column);
    for (uint32_t c = 0; c < inst.group; ++c) {
      if (!TensorInside(w, i, *ctas[c], to.column, inst.copy.columns(), "the copy"))
        return Step::kError;
      if (w.judge == nullptr) continue;
      if (ctas[c] != w.cta) w.judge->TensorPeer(op, ctas[c]->rank);
      JudgeChunks(op, *ctas[c], from, inst.copy.columns() / 4, false,
                  [&](auto f) { ForEachCopyChunk(inst.copy, from, f); });
      w.judge->TensorTouch(op, judge::TensorAct::kCopy, to.column,
                           {ctas[c]->rank, 0, kTensorLanes, to.column, inst.copy.columns(), true});
    }
    const std::array<Cta*, 2> parts = {ctas[0], ctas[1]};
    const bool ok = Enqueue(w, l, [&w, &i, l, &inst, parts, to, from] {
      std::string why;
      for (uint32_t c = 0; c < inst.group; ++c) {
        if (RunCopy(inst.copy, to, from, PartOf(parts[c]), &why)) continue;
        Bad(w, i, l, Rule::kT9, why);
        return false;
      }
      return true;
    });
    if (!ok) return Step::kError;
  }
  return Step::kNext;
}

Step RunTensorShift(Warp& w, const Inst& i, uint32_t mask) {
  JudgeLanes(w, i, mask, judge::Severity::kError);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int l = __builtin_ctz(rest);
    Cta* ctas[2];
    if (!PartsOf(w, i, l, i.u[1], ctas)) return Step::kError;
    const TensorAddress at = TensorAddress::Of(Row<uint32_t>(w, i.o[0])[l]);
    if (at.lane % 32 != 0 || at.lane >= kTensorLanes)
      return Bad(w, i, l, Rule::kT8,
                 fmt::format("lane {}, a multiple of 32 below 128 is needed", at.lane));
    judge::AsyncOp op;
    if (w.judge != nullptr)
      op = w.judge->TensorOp(w.judge_id, l, PcOf(w, i), judge::TensorAct::kShift, at.column);
    for (uint32_t c = 0; c < i.u[1]; ++c) {
      if (!TensorInside(w, i, *ctas[c], at.column, 8, "the shift")) return Step::kError;
      if (w.judge == nullptr) continue;
      if (ctas[c] != w.cta) w.judge->TensorPeer(op, ctas[c]->rank);
      w.judge->TensorTouch(op, judge::TensorAct::kShift, at.column,
                           {ctas[c]->rank, at.lane, 32, at.column, 8, true});
    }
    const std::array<Cta*, 2> parts = {ctas[0], ctas[1]};
    const bool ok = Enqueue(w, l, [parts, at] {
      for (Cta* cta : parts)
        if (cta != nullptr) RunShift(at, &TensorOf(*cta).memory);
      return true;
    });
    if (!ok) return Step::kError;
  }
  return Step::kNext;
}

// ---- commit ----

}  // namespace tilec::runtime::emulator
