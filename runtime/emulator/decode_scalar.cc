// Builders of lane-wise instructions.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/handlers.h"
#include "support/check.h"

namespace tilec::runtime::emulator {
namespace {

AluOp AluOpOf(std::string_view name) {
  static constexpr std::pair<std::string_view, AluOp> kNames[] = {
      {"Mov", AluOp::kMov},     {"Add", AluOp::kAdd},     {"Sub", AluOp::kSub},
      {"Mul", AluOp::kMul},     {"MulHi", AluOp::kMulHi}, {"MulWide", AluOp::kMulWide},
      {"Mad", AluOp::kMad},     {"MadHi", AluOp::kMadHi}, {"MadWide", AluOp::kMadWide},
      {"Div", AluOp::kDiv},     {"Rem", AluOp::kRem},     {"Min", AluOp::kMin},
      {"Max", AluOp::kMax},     {"Neg", AluOp::kNeg},     {"Abs", AluOp::kAbs},
      {"And", AluOp::kAnd},     {"Or", AluOp::kOr},       {"Xor", AluOp::kXor},
      {"Not", AluOp::kNot},     {"Cnot", AluOp::kCnot},   {"Shl", AluOp::kShl},
      {"Shr", AluOp::kShr},     {"ShfL", AluOp::kShfL},   {"ShfR", AluOp::kShfR},
      {"Lop3", AluOp::kLop3},   {"Prmt", AluOp::kPrmt},   {"Bfe", AluOp::kBfe},
      {"Bfi", AluOp::kBfi},     {"Popc", AluOp::kPopc},   {"Clz", AluOp::kClz},
      {"Bfind", AluOp::kBfind}, {"Brev", AluOp::kBrev},   {"Fma", AluOp::kFma},
      {"Selp", AluOp::kSelp},   {"Sad", AluOp::kSad},     {"Copysign", AluOp::kCopysign},
      {"Dp4a", AluOp::kDp4a},
  };
  for (auto [text, op] : kNames)
    if (text == name) return op;
  UNREACHABLE("a row of ptx_isa.def names no operation");
}

Unary UnaryOf(std::string_view name) {
  static constexpr std::pair<std::string_view, Unary> kNames[] = {
      {"Ex2", Unary::kEx2},
      {"Lg2", Unary::kLg2},
      {"Rcp", Unary::kRcp},
      {"RcpRounded", Unary::kRcpRounded},
      {"Rsqrt", Unary::kRsqrt},
      {"Sqrt", Unary::kSqrt},
      {"SqrtRounded", Unary::kSqrtRounded},
      {"Tanh", Unary::kTanh},
      {"Sin", Unary::kSin},
      {"Cos", Unary::kCos},
      {"Div", Unary::kDiv},
  };
  for (auto [text, op] : kNames)
    if (text == name) return op;
  UNREACHABLE("a row of ptx_isa.def names no function");
}

Round RoundOf(const Statement& s) {
  if (s.Has("rz") || s.Has("rzi")) return Round::kZero;
  if (s.Has("rm") || s.Has("rmi")) return Round::kDown;
  if (s.Has("rp") || s.Has("rpi")) return Round::kUp;
  if (s.Has("rna")) return Round::kNearestAway;
  return Round::kNearestEven;
}

}  // namespace

bool Decoder::BuildAlu(const Statement& s, const Matched& m, Inst* inst) {
  AluFlags f;
  f.ftz = s.Has("ftz");
  f.sat = s.Has("sat");
  f.nan = s.Has("NaN");
  f.relu = s.Has("relu");
  f.wrap = s.Has("wrap");
  f.shiftamt = s.Has("shiftamt");
  f.xorsign = s.Has("xorsign");
  inst->run = AluHandler(AluOpOf(m.form->argument), m.t, f);
  if (inst->run == nullptr) return Refuse("`" + std::string(s.text) + "`");
  return true;
}

bool Decoder::BuildRounded(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = static_cast<uint8_t>(AluOpOf(m.form->argument));
  inst->u[1] = static_cast<uint8_t>(RoundOf(s));
  inst->u[2] = s.Has("ftz");
  inst->u[3] = s.Has("sat");
  inst->run = RunRounded;
  return true;
}

bool Decoder::BuildSpecial(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = static_cast<uint8_t>(UnaryOf(m.form->argument));
  inst->u[1] = static_cast<uint8_t>(m.t);
  inst->u[2] = s.Has("ftz");
  inst->u[3] = static_cast<uint8_t>(RoundOf(s));
  inst->run = m.t == Type::kF64 ? RunUnaryF64 : RunUnary;
  return true;
}

bool Decoder::BuildDp4a(const Statement&, const Matched& m, Inst* inst) {
  inst->u[0] = static_cast<uint8_t>((m.t == Type::kS32 ? 1 : 0) | (m.u == Type::kS32 ? 2 : 0));
  inst->run = AluHandler(AluOp::kDp4a, Type::kU32, {});
  return true;
}

bool Decoder::BuildPrmt(const Statement& s, const Matched&, Inst* inst) {
  static constexpr std::string_view kModes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (size_t k = 0; k < std::size(kModes); ++k)
    if (s.Has(kModes[k])) inst->u[0] = static_cast<uint8_t>(k + 1);
  inst->run = AluHandler(AluOp::kPrmt, Type::kB32, {});
  return true;
}

bool Decoder::BuildPredicateLogic(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = static_cast<uint8_t>(AluOpOf(m.form->argument));
  inst->u[1] = s.operands[1].negated;
  inst->u[2] = s.operands.size() > 2 && s.operands[2].negated;
  inst->run = inst->u[0] == static_cast<uint8_t>(AluOp::kMov) ? RunMovPredicate : RunPredicateLogic;
  return true;
}

bool Decoder::BuildMov(const Statement& s, const Matched& m, Inst* inst) {
  if (s.operands.size() != 2) return Bad(s, s.operands.size(), "two operands are needed");
  const Operand &d = s.operands[0], &a = s.operands[1];
  int bits = TypeBits(m.t);
  bool unpack = d.kind == Operand::Kind::kVector, pack = a.kind == Operand::Kind::kVector;
  if (unpack || pack) {
    if (unpack && pack) return Bad(s, 1, "a vector cannot be moved to a vector");
    const Operand& v = unpack ? d : a;
    size_t n = v.parts.size();
    int part = n == 0 ? 0 : bits / static_cast<int>(n);
    if ((n != 2 && n != 4) || part < 8)
      return Bad(s, unpack ? 0 : 1, "the parts must be two or four of at least 8 bits");
    Ref r;
    if (!(unpack ? Source(s, 1, a, m.t, bits, &r) : Destination(s, 0, d, bits, &r))) return false;
    uint32_t list = 0;
    if (!VectorOperand(s, unpack ? 0 : 1, v, {part, Type::kNone, unpack}, &list)) return false;
    Set(inst, 0, r, !unpack);
    inst->o[1] = list;
    inst->u[0] = static_cast<uint8_t>(part);
    inst->u[1] = static_cast<uint8_t>(bits);
    inst->run = unpack ? RunUnpack : RunPack;
    return true;
  }
  Ref rd, ra;
  if (a.kind == Operand::Kind::kSpecial && static_cast<Special>(a.index) >= Special::kClock) {
    if (TypeBits(SpecialType(static_cast<Special>(a.index))) != bits)
      return Bad(s, 1, "the special register has another width");
    if (!Destination(s, 0, d, bits, &rd)) return false;
    Set(inst, 0, rd, true);
    inst->u[0] = static_cast<uint8_t>(a.index);
    inst->run = RunClock;
    p_->tells_time = true;
    return true;
  }
  if (a.negated) return Bad(s, 1, "only predicates can be negated");
  if (!Destination(s, 0, d, bits, &rd) || !Source(s, 1, a, m.t, bits, &ra)) return false;
  Set(inst, 0, rd, true, true);
  Set(inst, 1, ra, false);
  inst->run = AluHandler(AluOp::kMov,
                         bits == 64   ? Type::kB64
                         : bits == 32 ? Type::kB32
                                      : Type::kB16,
                         {});
  return true;
}

bool Decoder::BuildSelp(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = s.operands[3].negated;
  int bits = TypeBits(m.t);
  inst->run = AluHandler(AluOp::kSelp, bits == 64 ? Type::kB64 : Type::kB32, {});
  return true;
}

bool Decoder::BuildSetp(const Statement& s, const Matched& m, Inst* inst) {
  static constexpr std::string_view kNames[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                                "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  static constexpr std::pair<std::string_view, Compare> kUnsigned[] = {
      {"lo", Compare::kLt}, {"ls", Compare::kLe}, {"hi", Compare::kGt}, {"hs", Compare::kGe}};
  Compare cmp = Compare::kEq;
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (s.mods[0] == kNames[k]) cmp = static_cast<Compare>(k);
  for (auto [name, value] : kUnsigned)
    if (s.mods[0] == name) cmp = value;
  inst->u[1] = 1;
  inst->u[2] = !s.operands[0].second.empty();
  inst->u[3] = static_cast<uint8_t>(s.Has("and") ? 1 : s.Has("or") ? 2 : s.Has("xor") ? 3 : 0);
  bool has_c = s.operands.size() > 3;
  if (has_c != (inst->u[3] != 0)) return Bad(s, 3, "a predicate goes with .and, .or or .xor");
  inst->u[4] = has_c && s.operands[3].negated;
  inst->run = SetpHandler(cmp, m.t, s.Has("ftz"));
  return true;
}

// A register that may be wider than the type, as cvt, ld and st allow.
bool Decoder::WideRegister(const Statement& s, size_t index, const Operand& o, Type type, bool def,
                           Ref* out) {
  int bits = std::max(TypeBits(type), 16);
  if (o.kind == Operand::Kind::kRegister) {
    int have = TypeBits(e_->registers[static_cast<size_t>(o.reg)].type);
    if (have == 8) have = 16;
    if (have < TypeBits(type) || have == 1)
      return Bad(s, index, "the register is narrower than the type");
    bits = have;
  }
  if (o.negated) return Bad(s, index, "only predicates can be negated");
  return def ? Destination(s, index, o, bits, out) : Source(s, index, o, type, bits, out);
}

bool Decoder::BuildCvt(const Statement& s, const Matched& m, Inst* inst) {
  if (s.operands.size() != 2) return Bad(s, s.operands.size(), "two operands are needed");
  Ref d, a;
  if (!WideRegister(s, 0, s.operands[0], m.t, true, &d) ||
      !WideRegister(s, 1, s.operands[1], m.u, false, &a))
    return false;
  if (IsFloat(m.t) && d.bits != TypeBits(m.t))
    return Bad(s, 0, "a float result needs a register of its width");
  bool integer_result = !IsFloat(m.t);
  bool rounds = s.Has("rni") || s.Has("rzi") || s.Has("rmi") || s.Has("rpi");
  if (IsFloat(m.u) && integer_result && !rounds)
    return Bad(s, 0, "a float becomes an integer with .rni, .rzi, .rmi or .rpi");
  if ((m.t == Type::kTF32 || m.u == Type::kTF32) && m.u != Type::kF32)
    return Refuse("`" + std::string(s.text) + "`");
  Set(inst, 0, d, true, true);
  Set(inst, 1, a, false);
  inst->u[0] = static_cast<uint8_t>(m.t);
  inst->u[1] = static_cast<uint8_t>(m.u);
  inst->u[2] = static_cast<uint8_t>(RoundOf(s));
  inst->u[3] = static_cast<uint8_t>((s.Has("ftz") ? 1 : 0) | (s.Has("sat") ? 2 : 0) |
                                    (s.Has("relu") ? 4 : 0) | (s.Has("satfinite") ? 8 : 0) |
                                    (rounds ? 16 : 0));
  inst->u[4] = static_cast<uint8_t>(d.bits);
  inst->u[5] = static_cast<uint8_t>(a.bits);
  inst->run = RunCvt;
  if (inst->u[3] == 0) {
    if (m.t == Type::kU64 && m.u == Type::kU32 && a.bits == 32) inst->run = RunCvtU64U32;
    if (m.t == Type::kS64 && m.u == Type::kS32 && a.bits == 32) inst->run = RunCvtS64S32;
    if (TypeBits(m.t) == 32 && TypeBits(m.u) == 64 && integer_result && !IsFloat(m.u) &&
        d.bits == 32)
      inst->run = RunCvtU32U64;
    if (m.t == Type::kF32 && m.u == Type::kBF16 && a.bits == 16) inst->run = RunCvtF32Bf16;
    if (m.t == Type::kF32 && m.u == Type::kF16 && a.bits == 16) inst->run = RunCvtF32F16;
  }
  return true;
}

bool Decoder::BuildCvtPack(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = static_cast<uint8_t>(m.t);
  inst->u[1] = static_cast<uint8_t>(m.u);
  inst->u[2] = static_cast<uint8_t>(RoundOf(s));
  inst->u[3] = static_cast<uint8_t>((s.Has("relu") ? 4 : 0) | (s.Has("satfinite") ? 8 : 0));
  inst->run = RunCvtPack;
  if (m.u == Type::kF32 && inst->u[2] == 0 && !s.Has("satfinite")) {
    if (m.t == Type::kBF16x2) inst->run = RunCvtBf16x2;
    if (m.t == Type::kF16x2) inst->run = RunCvtF16x2;
  }
  return true;
}

}  // namespace tilec::runtime::emulator
