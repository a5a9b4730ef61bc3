// Form matching and operands. See decode.h; builders are in decode_scalar.cc, decode_memory.cc and
// decode_collective.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"

#include <cstring>

#include "runtime/emulator/handlers.h"
#include "support/check.h"

namespace tilec::runtime::emulator {

bool Decoder::Bad(const Statement& s, size_t operand, const std::string& what) {
  places_.At(diags_.Report(kPtxOperand, {}, operand + 1, s.text, what), s.line);
  return false;
}

bool Decoder::Refuse(const std::string& what) {
  places_.At(diags_.Report(kPtxRefused, {}, what), current_->line);
  return false;
}

uint32_t* RegUse::Field(Program& p) const {
  if (field >= 8) return &p.lists[static_cast<size_t>(field) - 8];
  return field == 7 ? &p.code[inst].guard : &p.code[inst].o[field];
}

void Decoder::Set(Inst* inst, int field, Ref r, bool def, bool late) {
  uint32_t& target = field == 7 ? inst->guard : inst->o[field];
  target = r.value;
  if (r.constant) return;
  RegUse use{};
  use.inst = kPending;
  use.vreg = r.value;
  use.field = field;
  use.def = def;
  use.use = !def || inst->guard != kNoGuard;  // a guarded write keeps the other lanes
  use.late = late;
  uses_.push_back(use);
}

Decoder::Ref Decoder::EmitExtra(int line, Handler h, int bits, Ref a, const Ref* b, uint64_t imm) {
  Inst inst;
  inst.run = h;
  inst.line = line;
  inst.imm = imm;
  inst.text = texts_.empty() ? 0 : static_cast<uint32_t>(p_->texts.size()) - 1;
  Ref d{false, NewVReg(bits), bits};
  size_t first = uses_.size();
  Set(&inst, 0, d, true);
  Set(&inst, 1, a, false);
  if (b != nullptr) Set(&inst, 2, *b, false);
  for (size_t k = first; k < uses_.size(); ++k)
    uses_[k].inst = static_cast<uint32_t>(p_->code.size());
  p_->code.push_back(inst);
  return d;
}

bool Decoder::VectorOperand(const Statement& s, size_t index, const Operand& o,
                            const VectorUse& use, uint32_t* list) {
  const Operand* parts = &o;
  size_t n = 1;
  if (o.kind == Operand::Kind::kVector) parts = o.parts.data(), n = o.parts.size();
  std::vector<Ref> refs(n);
  for (size_t k = 0; k < n; ++k)
    if (!(use.def ? Destination(s, index, parts[k], use.bits, &refs[k])
                  : Source(s, index, parts[k], use.type, use.bits, &refs[k])))
      return false;
  *list = BeginList(n);
  for (size_t k = 0; k < n; ++k) SetList(*list, k, refs[k], use.def, use.also_use);
  return true;
}

Inst Decoder::Start(const Statement& s) const {
  Inst inst;
  inst.line = s.line;
  inst.text = static_cast<uint32_t>(p_->texts.size()) - 1;
  return inst;
}

// The operands by the items of the form's pattern.
bool Decoder::SplitOperands(const Statement& s, std::string_view pattern,
                            std::vector<Item>* items) {
  size_t at = 0;
  int field = 0;
  while (!pattern.empty()) {
    size_t end = pattern.find(' ');
    std::string_view item = pattern.substr(0, end);
    pattern = end == std::string_view::npos ? std::string_view() : pattern.substr(end + 1);
    bool optional = item.back() == '?';
    if (optional) item.remove_suffix(1);
    size_t bar = item.find('|');
    if (at >= s.operands.size()) {
      if (!optional) return Bad(s, at, "missing");
      break;
    }
    const Operand& o = s.operands[at];
    items->push_back({item.substr(0, bar), &o, at, field++, {}, {}});
    if (bar != std::string_view::npos) {
      if (!o.second.empty())
        items->push_back({item.substr(bar + 1), &o.second[0], at, field, {}, {}});
      ++field;
    } else if (!o.second.empty()) {
      return Bad(s, at, "a pair is not expected here");
    }
    ++at;
  }
  if (at < s.operands.size()) return Bad(s, at, "more operands than the form has");
  return true;
}

int Decoder::WidthOf(const Matched& m, std::string_view w, Type* type) {
  *type = Type::kNone;
  if (w == "p") return 1;
  if (w == "16" || w == "32" || w == "64") {
    *type = w == "16" ? Type::kB16 : w == "32" ? Type::kB32 : Type::kB64;
    return TypeBits(*type);
  }
  *type = w == "U" ? m.u : m.t;
  int bits = TypeBits(*type);
  if (w == "W") *type = bits == 16 ? Type::kB32 : Type::kB64, bits *= 2;
  return bits;
}

// A tensor map and its coordinates.
bool Decoder::TensorOperand(const Statement& s, Item* item) {
  const Operand& map = *item->operand;
  if (map.kind != Operand::Kind::kAddress || map.parts.size() != 2)
    return Bad(s, item->index, "a tensor map and its coordinates are needed");
  if (!FullAddress(s, item->index, map, 64, &item->ref)) return false;
  const Operand& c = map.parts[1];
  const bool several = c.kind == Operand::Kind::kVector;
  item->refs.resize(several ? c.parts.size() : 1);
  for (size_t k = 0; k < item->refs.size(); ++k)
    if (!Source(s, item->index, several ? c.parts[k] : c, Type::kS32, 32, &item->refs[k]))
      return false;
  return true;
}

// Finds registers, constants and addresses; vectors come when the instruction's fields are set.
bool Decoder::ReadItem(const Statement& s, const Matched& m, Item* item, Inst* inst) {
  const std::string_view role = item->role;
  const Operand& o = *item->operand;
  Type type = Type::kNone;
  if (role == "i") {
    if (o.kind != Operand::Kind::kInt) return Bad(s, item->index, "a number is needed");
    inst->imm = o.bits;
  } else if (role == "L") {
    if (o.kind != Operand::Kind::kLabel) return Bad(s, item->index, "a label is needed");
  } else if (role == "m") {  // by the builder
  } else if (role == "ms" || role == "mg") {
    return FullAddress(s, item->index, o, role == "ms" ? 32 : 64, &item->ref);
  } else if (role == "t") {
    return TensorOperand(s, item);
  } else if (role[0] == 'd') {
    const int bits = WidthOf(m, role.substr(1), &type);
    return Destination(s, item->index, o, bits, &item->ref);
  } else if (role[0] == 's') {
    const int bits = WidthOf(m, role.substr(1), &type);
    if (o.negated && bits != 1) return Bad(s, item->index, "only predicates can be negated");
    return Source(s, item->index, o, type, bits, &item->ref);
  }
  return true;
}

// Follows the operand pattern of the form. Sources first, because an address may need extra
// instructions, which come before this one.
bool Decoder::Operands(const Statement& s, const Matched& m, Inst* inst) {
  if (std::string_view(m.form->operands) == "custom") return true;
  std::vector<Item> items;
  if (!SplitOperands(s, m.form->operands, &items)) return false;
  for (Item& item : items)
    if (!ReadItem(s, m, &item, inst)) return false;
  for (Item& item : items) {
    std::string_view role = item.role;
    if (role == "i" || role == "L" || role == "m") continue;
    if (role[0] == 'v') {
      Type type = Type::kNone;
      int bits = WidthOf(m, role.substr(2), &type);
      uint32_t list = 0;
      if (!VectorOperand(s, item.index, *item.operand, {bits, type, role[1] == 'd'}, &list))
        return false;
      inst->o[item.field] = list;
      continue;
    }
    if (role == "t") {
      uint32_t list = BeginList(item.refs.size() + 1);
      SetList(list, 0, item.ref, false);
      for (size_t k = 0; k < item.refs.size(); ++k) SetList(list, k + 1, item.refs[k], false);
      inst->o[item.field] = list;
      continue;
    }
    bool def = role[0] == 'd';
    Set(inst, item.field, item.ref, def, m.form->builder == Builder::kAlu);
  }
  return true;
}

bool Decoder::One(const Statement& s) {
  current_ = &s;
  Matched m;
  if (!MatchForm(s, &m)) return false;
  auto [it, added] = texts_.emplace(s.text, static_cast<uint32_t>(p_->texts.size()));
  if (added) p_->texts.emplace_back(s.text);
  Inst inst = Start(s);
  inst.text = it->second;
  if (s.guard >= 0) {
    inst.guard = 0;  // so that Set sees a guarded instruction
    inst.guard_negated = s.guard_negated;
  }
  size_t reports = diags_.all().size(), uses = uses_.size();
  if (!Operands(s, m, &inst)) return false;
  bool ok = false;
  switch (m.form->builder) {
#define X(name) \
  case Builder::k##name: ok = Build##name(s, m, &inst); break;
    TILEC_BUILDERS(X)
#undef X
  }
  if (ok && inst.run == nullptr) {
    places_.At(diags_.Report(kPtxUnknownForm, {}, s.text), s.line);
    return false;
  }
  if (!ok) {
    if (diags_.all().size() == reports) UNREACHABLE("a builder failed without a report");
    return false;
  }
  if (s.guard >= 0) Set(&inst, 7, Guard(s), false);
  for (size_t k = uses; k < uses_.size(); ++k)
    if (uses_[k].inst == kPending) uses_[k].inst = static_cast<uint32_t>(p_->code.size());
  bool lanewise = m.form->builder == Builder::kAlu || m.form->builder == Builder::kSpecial ||
                  m.form->builder == Builder::kRounded;
  if (lanewise && (m.t == Type::kF32 || m.t == Type::kF64))
    p_->floats.push_back({static_cast<uint32_t>(p_->code.size()),
                          static_cast<uint32_t>(s.operands.size()) - 1, m.t == Type::kF64});
  p_->code.push_back(inst);
  return true;
}

}  // namespace tilec::runtime::emulator
