// Builders of lane-wise instructions that kernels rarely have: carries, fields, directed rounding
// of doubles.
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
  inst->u[0] = static_cast<uint8_t>(!mad ? m.form->argument == "Sub" ? CarryOp::kSub : CarryOp::kAdd
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
  inst->u[2] = s.Has("hi");
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

bool Decoder::BuildVideo(const Statement& s, const Matched&, Inst* inst) {
  static constexpr std::string_view kNames[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax"};
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (s.opcode.substr(0, s.opcode.size() - 1) == kNames[k]) inst->u[0] = static_cast<uint8_t>(k);
  inst->u[1] = s.opcode.back() == '4';
  size_t at = 0;
  for (std::string_view mod : s.mods)
    if (const Type t = TypeFromName(mod); t != Type::kNone && at < 3)
      inst->u[2 + at++] = IsSigned(t);
  inst->u[5] = static_cast<uint8_t>((s.Has("sat") ? 1 : 0) | (s.Has("add") ? 2 : 0));
  inst->run = RunVideo;
  return true;
}

// A comparison and a choice between the type's true and 0.
bool Decoder::BuildSetTo(const Statement& s, const Matched& m, Inst* inst) {
  static constexpr std::pair<std::string_view, Compare> kNames[] = {
      {"eq", Compare::kEq},   {"ne", Compare::kNe},   {"lt", Compare::kLt},
      {"le", Compare::kLe},   {"gt", Compare::kGt},   {"ge", Compare::kGe},
      {"equ", Compare::kEqu}, {"neu", Compare::kNeu}, {"ltu", Compare::kLtu},
      {"leu", Compare::kLeu}, {"gtu", Compare::kGtu}, {"geu", Compare::kGeu},
      {"num", Compare::kNum}, {"nan", Compare::kNan}, {"lo", Compare::kLt},
      {"ls", Compare::kLe},   {"hi", Compare::kGt},   {"hs", Compare::kGe}};
  Compare cmp = Compare::kEq;
  for (auto [name, value] : kNames)
    if (s.mods[0] == name) cmp = value;
  const Handler compare = SetpHandler(cmp, m.u, s.Has("ftz"));
  if (compare == nullptr || TypeBits(m.u) < 16) return Refuse("`" + std::string(s.text) + "`");
  Inst test = Start(s);
  test.run = compare, test.u[1] = 1, test.text = inst->text;
  const Ref hit{false, NewVReg(1), 1};
  Ref a, b, to;
  const int bits = TypeBits(m.u);
  if (!Source(s, 1, s.operands[1], m.u, bits, &a) || !Source(s, 2, s.operands[2], m.u, bits, &b) ||
      !Destination(s, 0, s.operands[0], TypeBits(m.t), &to))
    return false;
  const size_t first = uses_.size();
  Set(&test, 0, hit, true);
  Set(&test, 2, a, false);
  Set(&test, 3, b, false);
  for (size_t u = first; u < uses_.size(); ++u)
    uses_[u].inst = static_cast<uint32_t>(p_->code.size());
  p_->code.push_back(test);
  const uint64_t yes = m.t == Type::kF32    ? 0x3f800000u
                       : m.t == Type::kF16  ? 0x3c00u
                       : m.t == Type::kBF16 ? 0x3f80u
                                            : (TypeBits(m.t) == 16 ? 0xffffu : ~0u);
  Set(inst, 0, to, true);
  Set(inst, 1, {true, Constant(yes, false), 32}, false);
  Set(inst, 2, {true, Constant(0, false), 32}, false);
  Set(inst, 3, hit, false);
  inst->run = AluHandler(AluOp::kSelp, Type::kB32, {});
  return true;
}

bool Decoder::BuildCvtSat(const Statement& s, const Matched&, Inst* inst) {
  const std::string_view to = s.mods[2];  // "s8"
  inst->u[0] = to[0] == 's';
  inst->u[1] = static_cast<uint8_t>(to == "u16" || to == "s16" ? 16 : to[1] - '0');
  inst->u[2] = s.operands.size() == 4;
  inst->run = RunCvtSat;
  return true;
}

// lop3 and, beside it, whether the result is not 0, combined with a predicate.
bool Decoder::BuildLop3Bool(const Statement& s, const Matched&, Inst* inst) {
  if (s.operands.size() != 6) return Bad(s, s.operands.size(), "six operands are needed");
  const Operand& d = s.operands[0];
  const Operand& table = s.operands[4];
  if (table.kind != Operand::Kind::kInt) return Bad(s, 4, "a number is needed");
  if (d.second.size() != 1) return Bad(s, 0, "a register and a predicate are needed");
  Ref to, p, q, from[3];
  for (size_t k = 0; k < 3; ++k)
    if (!Source(s, k + 1, s.operands[k + 1], Type::kB32, 32, &from[k])) return false;
  if (!Source(s, 5, s.operands[5], Type::kPred, 1, &q) || !Destination(s, 0, d, 32, &to) ||
      !Destination(s, 0, d.second[0], 1, &p))
    return false;
  Set(inst, 0, to, true);
  for (size_t k = 0; k < 3; ++k) Set(inst, static_cast<int>(k) + 1, from[k], false);
  Set(inst, 4, p, true);
  Set(inst, 5, q, false);
  inst->imm = table.bits & 0xff;
  inst->u[0] = static_cast<uint8_t>((s.Has("and") ? 0 : s.Has("or") ? 1 : 2));
  inst->u[1] = s.operands[5].negated;
  inst->run = RunLop3Bool;
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
