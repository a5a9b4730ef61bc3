// Builders of tcgen05 instructions, and what a module's `.target` says of them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

// "sm_100a" → 100 and 'a'; a target without a letter has 0.
struct Target {
  uint32_t number = 0;
  char letter = 0;
  bool Is(uint32_t n, char c) const { return number == n && letter == c; }
  // sm_100f's family: 100 and 103, 'a' and 'f'; sm_110f's: 110 (which was 101).
  bool family100() const { return (number == 100 || number == 103) && letter != 0; }
  bool family110() const { return (number == 101 || number == 110) && letter != 0; }
};

Target TargetOf(std::string_view name) {
  Target t;
  if (name.substr(0, 3) != "sm_") return t;
  const char* end = name.data() + name.size();
  auto r = std::from_chars(name.data() + 3, end, t.number);
  if (r.ec == std::errc() && r.ptr != end) t.letter = *r.ptr;
  return t;
}

uint32_t NumberBehind(std::string_view word, std::string_view prefix) {
  uint32_t n = 0;
  if (word.substr(0, prefix.size()) == prefix)
    std::from_chars(word.data() + prefix.size(), word.data() + word.size(), n);
  return n;
}

constexpr std::pair<std::string_view, MmaKind> kKinds[] = {
    {"kind::f16", MmaKind::kF16},           {"kind::tf32", MmaKind::kTf32},
    {"kind::f8f6f4", MmaKind::kF8f6f4},     {"kind::i8", MmaKind::kI8},
    {"kind::mxf8f6f4", MmaKind::kMxf8f6f4}, {"kind::mxf4", MmaKind::kMxf4},
    {"kind::mxf4nvf4", MmaKind::kMxf4nvf4}};

// Scale factors per row and instruction (table 57); empty `error`: right.
uint8_t ScalesOf(const Statement& s, MmaKind kind, std::string* error) {
  const uint8_t natural = kind == MmaKind::kMxf8f6f4 ? 1 : 2;  // of blocks of 32
  uint8_t said = 0;
  for (std::string_view m : s.mods) {
    if (m.substr(0, 11) == "scale_vec::") said = static_cast<uint8_t>(m[11] - '0');
    if (m == "block32") said = natural;
    if (m == "block16") said = 4;
  }
  if (said == 0 && kind == MmaKind::kMxf4nvf4)
    *error = "kind::mxf4nvf4 needs `.scale_vec::2X`, `.scale_vec::4X`, `.block32` or `.block16`";
  if (said == 0) return natural;
  if (said != natural && !(said == 4 && kind == MmaKind::kMxf4nvf4))
    *error = fmt::format("kind::{} has no {} scales a row", MmaKindName(kind), said);
  return said;
}

}  // namespace

bool Decoder::TensorTarget(const Statement& s, TensorInst* t) {
  const Target target = TargetOf(m_.target);
  auto needs = [&](const char* what) {
    return Refuse(fmt::format("`{}` on .target {}: it needs {}", s.text, m_.target, what));
  };
  if (!target.family100() && !target.family110())
    return needs("sm_100a, sm_103a, sm_110a or one of their families (sm_100f)");
  if (s.Has("kind::i8") && !target.Is(100, 'a') && !(target.family110() && target.letter == 'a'))
    return needs("sm_100a or sm_110a");
  if (s.opcode == "tcgen05" && s.Has("shift") && target.letter != 'a')
    return needs("sm_100a, sm_103a or sm_110a");
  const bool vec = std::any_of(s.mods.begin(), s.mods.end(),
                               [](auto m) { return m.substr(0, 11) == "scale_vec::"; });
  if (vec && target.letter != 'a') return needs("sm_100a (a family says `.block16`, `.block32`)");
  for (std::string_view m : s.mods) {
    const uint32_t group = NumberBehind(m, "cta_group::");
    if (m.substr(0, 11) != "cta_group::") continue;
    if (group != 1 && group != 2) return Refuse(fmt::format("`{}`", s.text));
    if (tensor_group_ != 0 && tensor_group_ != group)
      return Refuse(
          fmt::format("`{}`: other tcgen05 instructions of the kernel say "
                      "`.cta_group::{}`, and all must say the same",
                      s.text, tensor_group_));
    tensor_group_ = group;
    t->group = static_cast<uint8_t>(group);
  }
  return true;
}

bool Decoder::TensorAddressOperand(const Statement& s, size_t index, Inst* inst, int field) {
  if (index >= s.operands.size()) return Bad(s, index, "missing");
  Ref r;
  if (!FullAddress(s, index, s.operands[index], 32, &r)) return false;
  Set(inst, field, r, false);
  return true;
}

bool Decoder::BuildTensorAlloc(const Statement& s, const Matched&, Inst* inst) {
  TensorInst t;
  if (!TensorTarget(s, &t)) return false;
  inst->u[0] = s.Has("alloc") ? 0 : s.Has("dealloc") ? 1 : 2;
  inst->u[1] = t.group;
  inst->run = RunTensorAlloc;
  return true;
}

bool Decoder::BuildTensorMove(const Statement& s, const Matched&, Inst* inst) {
  TensorInst t;
  if (!TensorTarget(s, &t)) return false;
  const bool store = s.Has("st");
  for (std::string_view m : s.mods) {
    if (auto shape = TensorShapeFromName(m)) t.transfer.shape = *shape;
    if (m[0] == 'x') t.transfer.num = NumberBehind(m, "x");
  }
  t.transfer.packed = s.Has("pack::16b") || s.Has("unpack::16b");
  if (!t.transfer.Valid()) return Refuse(fmt::format("`{}`: the shape has no such `.num`", s.text));
  const bool split = t.transfer.shape == TensorShape::k16x32bx2;
  if (s.operands.size() != (split ? 3u : 2u))
    return Bad(s, s.operands.size(), split ? "three operands are needed" : "two are needed");
  // ld: registers, address, split. st: address, split, registers.
  const size_t address = store ? 0 : 1, registers = store ? (split ? 2 : 1) : 0;
  if (split) {
    const size_t at = store ? 1 : 2;
    if (s.operands[at].kind != Operand::Kind::kInt) return Bad(s, at, "a number is needed");
    if (s.operands[at].bits >= kTensorColumns)
      return Bad(s, at, fmt::format("{} is no number of columns", s.operands[at].bits));
    t.transfer.half_split = static_cast<uint32_t>(s.operands[at].bits);
  }
  if (!TensorAddressOperand(s, address, inst, 1)) return false;
  uint32_t list = 0;
  if (!VectorOperand(s, registers, s.operands[registers], {32, Type::kNone, !store}, &list))
    return false;
  if (p_->lists[list] != t.transfer.registers())
    return Bad(s, registers,
               fmt::format("{} registers are needed, {} are given", t.transfer.registers(),
                           p_->lists[list]));
  inst->o[0] = list;
  inst->imm = p_->tensor.size();
  p_->tensor.push_back(t);
  inst->run = store ? RunTensorSt : RunTensorLd;
  return true;
}

bool Decoder::BuildTensorWait(const Statement& s, const Matched&, Inst* inst) {
  TensorInst t;
  if (!TensorTarget(s, &t)) return false;
  inst->u[0] = s.Has("wait::st");
  inst->run = RunTensorWait;
  return true;
}

bool Decoder::BuildTensorFence(const Statement& s, const Matched&, Inst* inst) {
  TensorInst t;
  if (!TensorTarget(s, &t)) return false;
  inst->u[0] = s.Has("fence::after_thread_sync");
  inst->run = RunTensorFence;
  return true;
}

bool Decoder::BuildTensorCp(const Statement& s, const Matched&, Inst* inst) {
  TensorInst t;
  if (!TensorTarget(s, &t)) return false;
  t.copy.shape = s.Has("128x256b")        ? CopyShape::k128x256b
                 : s.Has("128x128b")      ? CopyShape::k128x128b
                 : s.Has("32x128b")       ? CopyShape::k32x128b
                 : s.Has("warpx2::02_13") ? CopyShape::k64x128b02
                                          : CopyShape::k64x128b01;
  inst->imm = p_->tensor.size();
  p_->tensor.push_back(t);
  inst->run = RunTensorCp;
  return true;
}

bool Decoder::BuildTensorShift(const Statement& s, const Matched&, Inst* inst) {
  TensorInst t;
  if (!TensorTarget(s, &t)) return false;
  if (!s.Has("down")) return Refuse(fmt::format("`{}`: `.down` is missing", s.text));
  inst->u[1] = t.group;
  inst->run = RunTensorShift;
  return true;
}

bool Decoder::BuildTensorCommit(const Statement& s, const Matched&, Inst* inst) {
  TensorInst t;
  if (!TensorTarget(s, &t)) return false;
  inst->u[0] = s.Has("multicast::cluster");
  inst->u[1] = t.group;
  inst->run = RunTensorCommit;
  return true;
}

// [d], a-desc | [a], b-desc, idesc {, {mask}} {, [scale-a], [scale-b]}, p {, scale | column mask}
bool Decoder::BuildTensorMma(const Statement& s, const Matched&, Inst* inst) {
  TensorInst t;
  if (!TensorTarget(s, &t)) return false;
  for (auto [name, kind] : kKinds)
    if (s.Has(name)) t.form.kind = kind;
  t.form.group = t.group;
  t.form.ws = s.Has("ws");
  const bool scaled = IsScaled(t.form.kind);
  std::string error;
  if (scaled) t.form.scales = ScalesOf(s, t.form.kind, &error);
  if (!error.empty()) return Refuse(fmt::format("`{}`: {}", s.text, error));
  if (s.operands.size() < (scaled ? 7u : 5u)) return Bad(s, s.operands.size(), "missing");
  t.form.a_in_tensor = s.operands[1].kind == Operand::Kind::kAddress;
  if (t.form.a_in_tensor && t.form.ws)
    return Refuse(fmt::format("`{}` with A in tensor memory", s.text));
  Ref a, b, idesc;
  size_t at = 4;
  if (!TensorAddressOperand(s, 0, inst, 0)) return false;
  if (t.form.a_in_tensor) {
    if (!TensorAddressOperand(s, 1, inst, 1)) return false;
  } else {
    if (!Source(s, 1, s.operands[1], Type::kB64, 64, &a)) return false;
    Set(inst, 1, a, false);
  }
  if (!Source(s, 2, s.operands[2], Type::kB64, 64, &b) ||
      !Source(s, 3, s.operands[3], Type::kB32, 32, &idesc))
    return false;
  Set(inst, 2, b, false);
  Set(inst, 3, idesc, false);
  if (scaled) {
    if (!TensorAddressOperand(s, 4, inst, 4) || !TensorAddressOperand(s, 5, inst, 5)) return false;
    at = 6;
  } else if (s.operands[4].kind == Operand::Kind::kVector) {
    t.masked = true;
    uint32_t list = 0;
    if (t.form.ws) return Bad(s, 4, ".ws has no lanes to disable");
    if (!VectorOperand(s, 4, s.operands[4], {32, Type::kB32}, &list)) return false;
    if (p_->lists[list] != 4u * t.group)
      return Bad(s, 4,
                 fmt::format("{} words are needed, {} are given", 4 * t.group, p_->lists[list]));
    inst->o[4] = list;
    at = 5;
  }
  if (at >= s.operands.size()) return Bad(s, at, "missing");
  const Operand& p = s.operands[at];
  if (p.kind == Operand::Kind::kInt) {  // 0 or 1 written out
    if (p.bits > 1) return Bad(s, at, "it must be a predicate, 0 or 1");
    inst->u[1] = static_cast<uint8_t>(1 + p.bits);
  } else {
    Ref enable;
    if (!Source(s, at, p, Type::kPred, 1, &enable)) return false;
    Set(inst, 6, enable, false);
  }
  inst->u[2] = p.negated;
  if (++at < s.operands.size()) {
    const Operand& last = s.operands[at];
    if (t.form.ws) {
      Ref mask;
      if (!Source(s, at, last, Type::kB64, 64, &mask)) return false;
      Set(inst, 5, mask, false);
      inst->u[3] = 1;
    } else {
      const bool has = t.form.kind == MmaKind::kF16 || t.form.kind == MmaKind::kTf32;
      if (!has || last.kind != Operand::Kind::kInt || last.bits > 15)
        return Bad(s, at, "the scale of D is a number from 0 to 15, of kind::f16 and kind::tf32");
      t.scale_c = static_cast<uint32_t>(last.bits);
    }
  }
  if (++at < s.operands.size()) return Bad(s, at, "more operands than the form has");
  inst->imm = p_->tensor.size();
  p_->tensor.push_back(t);
  inst->run = RunTensorMma;
  return true;
}

void Decoder::WatchLoads() {
  using Kind = judge::RegisterUse::Kind;
  std::vector<uint32_t> number(vregs_.size());
  judge::RegisterMap& map = p_->loaded;
  for (const RegUse& u : uses_)
    if (u.def && u.field >= 8 && p_->code[u.inst].run == RunTensorLd && number[u.vreg] == 0)
      number[u.vreg] = ++map.count;
  if (map.count == 0) return;
  std::vector<std::vector<judge::RegisterUse>> per(p_->code.size());
  for (const RegUse& u : uses_) {
    if (number[u.vreg] == 0) continue;
    const bool load = u.def && p_->code[u.inst].run == RunTensorLd;
    per[u.inst].push_back({number[u.vreg] - 1, load    ? Kind::kWrite
                                               : u.use ? Kind::kRead
                                                       : Kind::kCopyTo});
  }
  map.first.resize(per.size() + 1);
  for (size_t k = 0; k < per.size(); ++k) {
    map.first[k] = static_cast<uint32_t>(map.uses.size());
    map.uses.insert(map.uses.end(), per[k].begin(), per[k].end());
  }
  map.first[per.size()] = static_cast<uint32_t>(map.uses.size());
}

}  // namespace tilec::runtime::emulator
