// Builders of wmma, of the small and the scaled mma shapes beside it, and of st.async and
// red.async.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"
#include "runtime/emulator/exec_atomic.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/mma_scaled.h"
#include "runtime/emulator/wmma.h"

namespace tilec::runtime::emulator {
namespace {

const WmmaShape* ShapeOf(const Statement& s, uint8_t* index) {
  for (size_t k = 0; k < std::size(kWmmaShapes); ++k)
    if (s.Has(kWmmaShapes[k].name)) return *index = static_cast<uint8_t>(k), &kWmmaShapes[k];
  return nullptr;
}

// The types among the modifiers, in order.
std::vector<Type> TypesOf(const Statement& s) {
  std::vector<Type> types;
  for (std::string_view m : s.mods)
    if (const Type t = TypeFromName(m); t != Type::kNone) types.push_back(t);
  return types;
}

std::vector<bool> ColumnsOf(const Statement& s) {
  std::vector<bool> columns;
  for (std::string_view m : s.mods)
    if (m == "row" || m == "col") columns.push_back(m == "col");
  return columns;
}

}  // namespace

bool Decoder::Fragment(const Statement& s, size_t index, Type type, uint32_t elements, bool def,
                       uint32_t* list) {
  const Operand& o = s.operands[index];
  const uint32_t needed = WmmaRegisters(type, elements);
  const size_t given = o.kind == Operand::Kind::kVector ? o.parts.size() : 1;
  if (given != needed && !(type == Type::kF16 && given > needed))
    return Bad(s, index, fmt::format("{} registers are needed", needed));
  return VectorOperand(s, index, o, {type == Type::kF64 ? 64 : 32, Type::kNone, def}, list);
}

bool Decoder::BuildWmmaMove(const Statement& s, const Matched&, Inst* inst) {
  const bool store = s.Has("store");
  uint8_t shape = 0;
  const WmmaShape* found = ShapeOf(s, &shape);
  const WmmaRole role = s.Has("a") ? WmmaRole::kA : s.Has("b") ? WmmaRole::kB : WmmaRole::kC;
  const std::vector<Type> types = TypesOf(s);
  const std::vector<bool> columns = ColumnsOf(s);
  if (s.operands.size() < 2 || s.operands.size() > 3)
    return Bad(s, s.operands.size(), "a fragment and an address are needed");
  if (found == nullptr || types.size() != 1 || columns.size() != 1 ||
      !WmmaHas(*found, role, types[0]))
    return Refuse("`" + std::string(s.text) + "`");
  const size_t address = store ? 0 : 1, fragment = store ? 1 : 0;
  Ref stride;
  if (s.operands.size() == 3 && !Source(s, 2, s.operands[2], Type::kU32, 32, &stride)) return false;
  const bool shared = s.Has("shared") || s.Has("shared::cta");
  const bool global = s.Has("global");
  if (!AddressOperand(s, address, inst, 0, shared ? Space::kShared : Space::kGlobal,
                      !shared && !global))
    return false;
  uint32_t list = 0;
  if (!Fragment(s, fragment, types[0], WmmaElements(*found, role), !store, &list)) return false;
  inst->o[1] = list;
  if (s.operands.size() == 3) Set(inst, 2, stride, false);
  inst->u[3] = static_cast<uint8_t>(types[0]);
  inst->u[4] = static_cast<uint8_t>(shape << 2 | static_cast<unsigned>(role));
  inst->u[5] = static_cast<uint8_t>((columns[0] ? 1 : 0) | (store ? 2 : 0) |
                                    (s.operands.size() == 3 ? 4 : 0));
  inst->run = RunWmmaMove;
  return true;
}

bool Decoder::BuildWmma(const Statement& s, const Matched&, Inst* inst) {
  uint8_t shape = 0;
  const WmmaShape* found = ShapeOf(s, &shape);
  const std::vector<Type> types = TypesOf(s);
  const std::vector<bool> columns = ColumnsOf(s);
  if (s.operands.size() != 4) return Bad(s, s.operands.size(), "four fragments are needed");
  // .dtype.ctype of f16, .dtype.atype.btype.ctype of everything else
  if (found == nullptr || columns.size() != 2 || (types.size() != 2 && types.size() != 4))
    return Refuse("`" + std::string(s.text) + "`");
  const bool halves = types.size() == 2;
  const Type d = types[0], c = types.back();
  const Type a = halves ? Type::kF16 : types[1], b = halves ? Type::kF16 : types[2];
  const bool mixes = (a == Type::kS8 || a == Type::kU8) && (b == Type::kS8 || b == Type::kU8);
  if (!WmmaHas(*found, WmmaRole::kA, a) || !WmmaHas(*found, WmmaRole::kB, b) ||
      !WmmaHas(*found, WmmaRole::kC, c) || !WmmaHas(*found, WmmaRole::kC, d) || (a != b && !mixes))
    return Refuse("`" + std::string(s.text) + "`");
  const Type each[] = {d, a, b, c};
  const WmmaRole roles[] = {WmmaRole::kC, WmmaRole::kA, WmmaRole::kB, WmmaRole::kC};
  for (size_t k = 4; k-- > 0;) {
    uint32_t list = 0;
    if (!Fragment(s, k, each[k], WmmaElements(*found, roles[k]), k == 0, &list)) return false;
    inst->o[k] = list;
  }
  inst->u[0] = shape;
  inst->u[1] = columns[0], inst->u[2] = columns[1];
  inst->u[3] = static_cast<uint8_t>(a), inst->u[4] = static_cast<uint8_t>(b);
  inst->u[5] = static_cast<uint8_t>(c), inst->u[6] = static_cast<uint8_t>(d);
  inst->imm = s.Has("satfinite");
  inst->run = RunWmma;
  return true;
}

// mma of f64, and the 8 × 8 × 16 shape of bytes.
bool Decoder::BuildSmallMma(const Statement& s, const Matched&, Inst* inst) {
  const bool doubles = s.Has("f64");
  const int rows = s.Has("m8n8k4") || s.Has("m8n8k16") ? 8 : 16;
  const int k = s.Has("m8n8k4") || s.Has("m16n8k4") ? 4 : s.Has("m16n8k8") ? 8 : 16;
  const auto needed = [&](size_t operand) {
    if (!doubles) return operand == 1 || operand == 2 ? 1 : 2;
    return operand == 1 ? rows * k / 32 : operand == 2 ? 8 * k / 32 : rows * 8 / 32;
  };
  for (size_t operand = 0; operand < 4; ++operand) {
    const Operand& o = s.operands[operand];
    const size_t given = o.kind == Operand::Kind::kVector ? o.parts.size() : 1;
    if (given != static_cast<size_t>(needed(operand)))
      return Bad(s, operand, fmt::format("{} registers are needed", needed(operand)));
  }
  inst->u[0] = doubles;
  inst->u[1] = static_cast<uint8_t>(rows);
  inst->u[2] = static_cast<uint8_t>(k);
  inst->u[3] = s.Has("satfinite");
  const std::vector<Type> types = TypesOf(s);
  inst->u[4] = types.size() > 2 && types[1] == Type::kS8;
  inst->u[5] = types.size() > 2 && types[2] == Type::kS8;
  inst->run = RunSmallMma;
  return true;
}

// mma with block scaling. Its eight operands in seven fields: the selectors are one list.
bool Decoder::BuildScaledMma(const Statement& s, const Matched&, Inst* inst) {
  static constexpr std::pair<std::string_view, MmaFormat> kFormats[] = {{"e4m3", MmaFormat::kE4m3},
                                                                        {"e5m2", MmaFormat::kE5m2},
                                                                        {"e3m2", MmaFormat::kE3m2},
                                                                        {"e2m3", MmaFormat::kE2m3},
                                                                        {"e2m1", MmaFormat::kE2m1}};
  const size_t n = s.mods.size();
  const bool four_bits = s.Has("m16n8k64"), nvf4 = s.Has("kind::mxf4nvf4"), ue4m3 = s.Has("ue4m3");
  const int said = s.Has("scale_vec::2X") ? 2 : s.Has("scale_vec::4X") ? 4 : 0;
  if (nvf4 && said == 0)
    return Refuse(fmt::format("`{}`: it needs `.scale_vec::2X` or `.scale_vec::4X`", s.text));
  if ((!nvf4 && (said == 4 || ue4m3)) || (ue4m3 && said != 4))
    return Refuse(
        fmt::format("`{}`: .ue8m0 goes with .scale_vec::2X or, of mxf4nvf4, 4X; .ue4m3 "
                    "with 4X of mxf4nvf4",
                    s.text));
  const auto format = [&](std::string_view name) {
    for (const auto& [text, f] : kFormats)
      if (text == name) return static_cast<uint8_t>(f);
    return uint8_t{0};
  };
  constexpr size_t kFragments = 4, kOperands = 8;
  static constexpr size_t kRegisters[kFragments] = {4, 4, 2, 4};
  if (s.operands.size() != kOperands) return Bad(s, s.operands.size(), "eight operands are needed");
  const auto parts = [&](size_t k) {
    return s.operands[k].kind == Operand::Kind::kVector ? s.operands[k].parts.size() : size_t{1};
  };
  for (size_t k = 0; k < kFragments; ++k)
    if (parts(k) != kRegisters[k])
      return Bad(s, k,
                 fmt::format("{} registers are needed, {} are given", kRegisters[k], parts(k)));
  Ref selectors[4];
  for (size_t side : {size_t{0}, size_t{1}}) {
    const size_t at = kFragments + 2 * side;
    Ref scales;
    if (!Source(s, at, s.operands[at], Type::kB32, 32, &scales)) return false;
    Set(inst, static_cast<int>(4 + side), scales, false);
    if (parts(at + 1) != 2) return Bad(s, at + 1, "a byte-id and a thread-id are needed");
    for (size_t i = 0; i < 2; ++i)
      if (!Source(s, at + 1, s.operands[at + 1].parts[i], Type::kU16, 16, &selectors[2 * side + i]))
        return false;
  }
  const uint32_t list = BeginList(std::size(selectors));
  for (size_t i = 0; i < std::size(selectors); ++i) SetList(list, i, selectors[i], false);
  inst->o[6] = list;
  for (size_t k = kFragments; k-- > 0;)
    if (!VectorOperand(s, k, s.operands[k], {32, Type::kB32, k == 0}, &inst->o[k])) return false;
  inst->u[0] = format(s.mods[n - 4]);
  inst->u[1] = format(s.mods[n - 3]);
  inst->u[2] = four_bits;
  inst->u[3] = ue4m3;
  inst->u[4] = static_cast<uint8_t>(!four_bits ? 1 : said == 4 ? 4 : 2);
  inst->run = RunScaledMma;
  return true;
}

bool Decoder::BuildStoreAsync(const Statement& s, const Matched& m, Inst* inst) {
  static constexpr std::pair<std::string_view, AtomOp> kOps[] = {
      {"add", AtomOp::kAdd}, {"min", AtomOp::kMin}, {"max", AtomOp::kMax}, {"and", AtomOp::kAnd},
      {"or", AtomOp::kOr},   {"xor", AtomOp::kXor}, {"inc", AtomOp::kInc}, {"dec", AtomOp::kDec}};
  const bool reduces = s.opcode == "red";
  if (s.operands.size() != 3)
    return Bad(s, s.operands.size(), "an address, a value and an mbarrier");
  AtomOp op = AtomOp::kAdd;
  for (auto [name, value] : kOps)
    if (s.Has(name)) op = value;
  if (reduces && !AtomDefined(op, m.t)) return Refuse("`" + std::string(s.text) + "`");
  const size_t n = s.Has("v2") ? 2 : s.Has("v4") ? 4 : 1;
  const Operand& v = s.operands[1];
  if ((v.kind == Operand::Kind::kVector ? v.parts.size() : 1) != n)
    return Bad(s, 1, fmt::format("{} registers are needed", n));
  Ref to, bar;
  if (!FullAddress(s, 0, s.operands[0], 32, &to) || !FullAddress(s, 2, s.operands[2], 32, &bar))
    return false;
  uint32_t list = 0;
  if (!VectorOperand(s, 1, v, {TypeBits(m.t), m.t}, &list)) return false;
  Set(inst, 0, to, false);
  inst->o[1] = list;
  Set(inst, 2, bar, false);
  inst->u[0] = reduces;
  inst->u[1] = static_cast<uint8_t>(op);
  inst->u[3] = static_cast<uint8_t>(m.t);
  inst->run = RunStoreAsync;
  return true;
}

}  // namespace tilec::runtime::emulator
