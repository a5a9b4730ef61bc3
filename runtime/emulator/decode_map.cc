// Builders of instructions on tensor maps in memory and on clusters that have not begun, and of
// registers of 128 bits, which answers about such clusters come in.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

// Assemblers took strides without their four lowest bits before PTX ISA 8.5, and compilers gave
// them so.
bool Decoder::InSixteenths() const {
  constexpr std::string_view kWord = ".version";
  const size_t at = m_.text.find(kWord);
  if (at == std::string::npos) return false;
  char* end = nullptr;
  const long major = std::strtol(m_.text.c_str() + at + kWord.size(), &end, 10);
  const long minor = end != nullptr && *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return major < 8 || (major == 8 && minor < 5);
}

bool Decoder::BuildReplaceMap(const Statement& s, const Matched&, Inst* inst) {
  struct Row {
    std::string_view name;
    MapField field;
    uint64_t ordinals;  // how many there are; 0: the field has none
    uint64_t most;      // of a value that must be a number; 0: any value
  };
  static constexpr Row kRows[] = {{"global_address", MapField::kGlobalAddress, 0, 0},
                                  {"rank", MapField::kRank, 0, 0},
                                  {"box_dim", MapField::kBoxDim, 5, 0},
                                  {"global_dim", MapField::kGlobalDim, 5, 0},
                                  {"global_stride", MapField::kGlobalStride, 4, 0},
                                  {"element_stride", MapField::kElementStride, 5, 0},
                                  {"elemtype", MapField::kElementType, 0, 15},
                                  {"interleave_layout", MapField::kInterleave, 0, 2},
                                  {"swizzle_mode", MapField::kSwizzle, 0, 4},
                                  {"swizzle_atomicity", MapField::kSwizzleAtomicity, 0, 3},
                                  {"fill_mode", MapField::kFill, 0, 1}};
  const Row* row = nullptr;
  for (const Row& r : kRows)
    if (s.Has(r.name)) row = &r;
  if (row == nullptr) return Bad(s, 0, "no field of a tensor map is named");
  const size_t wanted = row->ordinals > 0 ? 3 : 2;
  if (s.operands.size() != wanted)
    return Bad(s, s.operands.size(), fmt::format("{} operands are needed", wanted));
  if (row->ordinals > 0) {
    const Operand& o = s.operands[1];
    if (o.kind != Operand::Kind::kInt || o.bits >= row->ordinals)
      return Bad(s, 1, fmt::format("a number below {} is needed", row->ordinals));
    inst->u[4] = static_cast<uint8_t>(o.bits);
  }
  const Operand& value = s.operands[wanted - 1];
  if (row->most > 0 && (value.kind != Operand::Kind::kInt || value.bits > row->most))
    return Bad(s, wanted - 1, fmt::format("a number up to {} is needed", row->most));
  const bool wide = s.Has("b64");
  Space space = Space::kGlobal;
  const bool shared = s.Has("shared") || s.Has("shared::cta");
  if (shared) space = Space::kShared;
  Ref v;
  if (!Source(s, wanted - 1, value, wide ? Type::kB64 : Type::kB32, wide ? 64 : 32, &v) ||
      !AddressOperand(s, 0, inst, 0, space, !shared && !s.Has("global")))
    return false;
  if (row->field == MapField::kGlobalStride && InSixteenths()) {
    const Ref places{true, Constant(4, false), 32};
    v = EmitExtra(s.line, AluHandler(AluOp::kShl, Type::kB64, {}), 64, v, &places);
  }
  Set(inst, 1, v, false);
  inst->u[3] = static_cast<uint8_t>(row->field);
  inst->u[5] = wide;
  inst->run = RunReplaceMap;
  return true;
}

bool Decoder::BuildCopyMap(const Statement& s, const Matched&, Inst* inst) {
  if (s.operands.size() != 3) return Bad(s, s.operands.size(), "three operands are needed");
  const Operand& size = s.operands[2];
  if (size.kind != Operand::Kind::kInt || size.bits != sizeof(TensorMap))
    return Bad(s, 2, fmt::format("the size is {}", sizeof(TensorMap)));
  Ref to, from;
  if (!FullAddress(s, 0, s.operands[0], 64, &to) || !FullAddress(s, 1, s.operands[1], 32, &from))
    return false;
  Set(inst, 0, to, false);
  Set(inst, 1, from, false);
  inst->run = RunCopyMap;
  return true;
}

bool Decoder::Halves(const Statement& s, size_t index, const Operand& o, Ref out[2]) {
  const bool fits = o.kind == Operand::Kind::kRegister && !o.negated &&
                    e_->registers[static_cast<size_t>(o.reg)].type == Type::kB128;
  if (!fits) return Bad(s, index, "a register of 128 bits is needed");
  const uint32_t low = first_register_ + static_cast<uint32_t>(o.reg);
  auto [it, added] = upper_.emplace(low, 0);
  if (added) it->second = NewVReg(64);
  out[0] = {false, low, 64};
  out[1] = {false, it->second, 64};
  return true;
}

// One move for each half; the second is the instruction itself.
bool Decoder::BuildMov128(const Statement& s, const Matched&, Inst* inst) {
  if (s.operands.size() != 2) return Bad(s, s.operands.size(), "two operands are needed");
  Ref refs[2][2];  // to, from
  for (size_t side = 0; side < 2; ++side) {
    const Operand& o = s.operands[side];
    if (o.kind != Operand::Kind::kVector) {
      if (!Halves(s, side, o, refs[side])) return false;
      continue;
    }
    if (o.parts.size() != 2) return Bad(s, side, "two halves of 64 bits are needed");
    for (size_t k = 0; k < 2; ++k)
      if (!(side == 0 ? Destination(s, 0, o.parts[k], 64, &refs[0][k])
                      : Source(s, 1, o.parts[k], Type::kB64, 64, &refs[1][k])))
        return false;
  }
  // A half that is read after the first move must not have been written by it.
  Ref last = refs[1][1];
  const bool clash = !refs[0][0].constant && !last.constant && refs[0][0].value == last.value;
  const Handler move = AluHandler(AluOp::kMov, Type::kB64, {});
  if (clash) last = EmitExtra(s.line, move, 64, last);
  Inst first = Start(s);
  first.run = move, first.text = inst->text, first.guard = inst->guard;
  first.guard_negated = inst->guard_negated;
  const size_t begin = uses_.size();
  Set(&first, 0, refs[0][0], true);
  Set(&first, 1, refs[1][0], false);
  if (s.guard >= 0) Set(&first, 7, Guard(s), false);
  for (size_t k = begin; k < uses_.size(); ++k)
    uses_[k].inst = static_cast<uint32_t>(p_->code.size());
  p_->code.push_back(first);
  Set(inst, 0, refs[0][1], true);
  Set(inst, 1, last, false);
  inst->run = move;
  return true;
}

bool Decoder::BuildStoreBulk(const Statement& s, const Matched&, Inst* inst) {
  if (s.operands.size() != 3) return Bad(s, s.operands.size(), "three operands are needed");
  const Operand& value = s.operands[2];
  if (value.kind != Operand::Kind::kInt || value.bits != 0) return Bad(s, 2, "the value is 0");
  Ref size;
  const Operand& o = s.operands[1];
  const bool narrow = o.kind == Operand::Kind::kRegister &&
                      TypeBits(e_->registers[static_cast<size_t>(o.reg)].type) == 32;
  const bool shared = s.Has("shared::cta");
  if (!Source(s, 1, o, Type::kB64, narrow ? 32 : 64, &size) ||
      !AddressOperand(s, 0, inst, 0, shared ? Space::kShared : Space::kGlobal, !shared))
    return false;
  Set(inst, 1, size, false);
  inst->u[3] = size.bits == 64;
  inst->run = RunStoreBulk;
  return true;
}

bool Decoder::BuildTryCancel(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = s.Has("multicast::cluster::all");
  p_->cancels = true;
  inst->run = RunTryCancel;
  return true;
}

bool Decoder::BuildQueryCancel(const Statement& s, const Matched&, Inst* inst) {
  if (s.operands.size() != 2) return Bad(s, s.operands.size(), "two operands are needed");
  Ref from[2];
  if (!Halves(s, 1, s.operands[1], from)) return false;
  const Operand& to = s.operands[0];
  if (s.Has("get_first_ctaid")) {
    if (to.kind != Operand::Kind::kVector || to.parts.size() != 4)
      return Bad(s, 0, "a vector of 4 registers is needed");
    uint32_t list = 0;
    if (!VectorOperand(s, 0, to, {32, Type::kB32, true}, &list)) return false;
    inst->o[0] = list;
    inst->u[0] = 4;
  } else {
    const bool asks = s.Has("is_canceled");
    Ref d;
    if (!Destination(s, 0, to, asks ? 1 : 32, &d)) return false;
    Set(inst, 0, d, true);
    inst->u[0] = asks ? 0 : s.Has("get_first_ctaid::x") ? 1 : s.Has("get_first_ctaid::y") ? 2 : 3;
  }
  Set(inst, 1, from[0], false);
  Set(inst, 2, from[1], false);
  inst->run = RunQueryCancel;
  return true;
}

// Two f32 in 64 bits: taken apart, two instructions of f32, put together.
bool Decoder::BuildPair(const Statement& s, const Matched& m, Inst* inst) {
  const bool fma = m.form->argument == "Fma";
  const AluOp op = fma                         ? AluOp::kFma
                   : m.form->argument == "Add" ? AluOp::kAdd
                   : m.form->argument == "Sub" ? AluOp::kSub
                                               : AluOp::kMul;
  const size_t sources = fma ? 3 : 2;
  if (s.operands.size() != sources + 1) return Bad(s, s.operands.size(), "operands are missing");
  Ref d, halves[2];
  if (!Destination(s, 0, s.operands[0], 64, &d)) return false;
  Ref parts[3][2];
  for (size_t k = 0; k < sources; ++k) {
    Ref whole;
    if (!Source(s, k + 1, s.operands[k + 1], Type::kB64, 64, &whole)) return false;
    const Ref places{true, Constant(32, false), 32};
    parts[k][0] = EmitExtra(s.line, RunCvtU32U64, 32, whole);
    parts[k][1] =
        EmitExtra(s.line, RunCvtU32U64, 32,
                  EmitExtra(s.line, AluHandler(AluOp::kShr, Type::kU64, {}), 64, whole, &places));
  }
  for (size_t half = 0; half < 2; ++half) {
    Inst one = Start(s);
    one.text = inst->text;
    one.u[0] = static_cast<uint8_t>(op);
    one.u[1] = static_cast<uint8_t>(s.Has("rz")   ? Round::kZero
                                    : s.Has("rm") ? Round::kDown
                                    : s.Has("rp") ? Round::kUp
                                                  : Round::kNearestEven);
    one.u[2] = s.Has("ftz");
    one.run = RunRounded;
    halves[half] = {false, NewVReg(32), 32};
    const size_t begin = uses_.size();
    Set(&one, 0, halves[half], true);
    for (size_t k = 0; k < sources; ++k) Set(&one, static_cast<int>(k) + 1, parts[k][half], false);
    for (size_t k = begin; k < uses_.size(); ++k)
      uses_[k].inst = static_cast<uint32_t>(p_->code.size());
    p_->code.push_back(one);
  }
  const uint32_t list = BeginList(2);
  for (size_t half = 0; half < 2; ++half) SetList(list, half, halves[half], false);
  Set(inst, 0, d, true);
  inst->o[1] = list;
  inst->u[0] = 32;
  inst->u[1] = 64;
  inst->run = RunPack;
  return true;
}

}  // namespace tilec::runtime::emulator
