// Builders of lane-wise instructions that kernels rarely have: carries, fields, directed rounding of
// doubles.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"
#include "runtime/emulator/exec_rare.h"
#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {

// The carry is a predicate register of the body that nobody else can name.
bool Decoder::BuildCarry(const Statement& s, const Matched& m, Inst* inst) {
  const bool mad = m.form->argument == "Mad";
  const bool takes = s.opcode.back() == 'c';  // addc, subc, madc
  const size_t sources = mad ? 3 : 2;
  if (s.operands.size() != sources + 1) return Bad(s, s.operands.size(), "operands are missing");
  const int bits = TypeBits(m.t);
  Ref refs[4];
  if (!Destination(s, 0, s.operands[0], bits, refs)) return false;
  for (size_t k = 1; k <= sources; ++k)
    if (!Source(s, k, s.operands[k], m.t, bits, &refs[k])) return false;
  if (carry_ < 0) carry_ = NewVReg(1);
  const Ref carry{false, static_cast<uint32_t>(carry_), 1};
  Set(inst, 0, refs[0], true);
  for (size_t k = 1; k <= sources; ++k) Set(inst, static_cast<int>(k), refs[k], false);
  if (takes) Set(inst, 4, carry, false);
  if (s.Has("cc")) Set(inst, 5, carry, true);
  inst->u[0] = static_cast<uint8_t>(!mad            ? m.form->argument == "Sub" ? CarryOp::kSub : CarryOp::kAdd
                                    : s.Has("hi") ? CarryOp::kMadHi
                                                  : CarryOp::kMadLo);
  inst->u[1] = takes;
  inst->u[2] = s.Has("cc");
  inst->u[3] = bits == 64;
  inst->u[4] = IsSigned(m.t);
  inst->run = RunCarry;
  return true;
}

bool Decoder::BuildBmsk(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = s.Has("wrap");
  inst->run = RunBmsk;
  return true;
}

bool Decoder::BuildSzext(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = s.Has("wrap");
  inst->u[1] = IsSigned(m.t);
  inst->run = RunSzext;
  return true;
}

bool Decoder::BuildMul24(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = s.opcode == "mad24";
  inst->u[1] = IsSigned(m.t);
  inst->run = RunMul24;
  return true;
}

bool Decoder::BuildDp2a(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = s.Has("hi");
  inst->u[1] = IsSigned(m.t);
  inst->u[2] = IsSigned(m.u);
  inst->run = RunDp2a;
  return true;
}

bool Decoder::BuildFns(const Statement&, const Matched&, Inst* inst) {
  inst->run = RunFns;
  return true;
}

bool Decoder::BuildTestp(const Statement& s, const Matched& m, Inst* inst) {
  static constexpr std::string_view kNames[] = {"finite",     "infinite", "number",
                                                "notanumber", "normal",   "subnormal"};
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (s.Has(kNames[k])) inst->u[0] = static_cast<uint8_t>(k);
  inst->u[1] = m.t == Type::kF64;
  inst->run = RunTestp;
  return true;
}

bool Decoder::BuildApprox64(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = s.opcode == "rsqrt";
  inst->run = RunApprox64;
  return true;
}

bool Decoder::BuildRounded64(const Statement& s, const Matched& m, Inst* inst) {
  static constexpr std::string_view kNames[] = {"Add", "Sub", "Mul", "Div", "Fma", "Rcp", "Sqrt"};
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (m.form->argument == kNames[k]) inst->u[0] = static_cast<uint8_t>(k);
  inst->u[1] = static_cast<uint8_t>(s.Has("rz") ? 0 : s.Has("rm") ? 1 : 2);
  inst->run = RunRounded64;
  return true;
}

}  // namespace tilec::runtime::emulator
