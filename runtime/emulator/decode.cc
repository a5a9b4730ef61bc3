// Form matching and operands. See decode.h; builders are in decode_scalar.cc, decode_memory.cc and
// decode_collective.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "runtime/emulator/handlers.h"
#include "support/check.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint32_t kPending = ~0u;  // RegUse::inst of the instruction being built

constexpr Form kForms[] = {
#define PTX(opcode, mods, operands, builder, argument, collective) \
  {opcode, mods, operands, Builder::k##builder, #argument, #collective},
#include "runtime/emulator/ptx_isa.def"
#undef PTX
};

// The forms of an opcode, in their order: every instruction of a text asks for them.
const std::vector<const Form*>& FormsOf(std::string_view opcode) {
  static const auto* const forms = [] {
    auto* by_opcode = new std::unordered_map<std::string_view, std::vector<const Form*>>;
    for (const Form& f : kForms) (*by_opcode)[f.opcode].push_back(&f);
    return by_opcode;
  }();
  static const std::vector<const Form*> none;
  const auto it = forms->find(opcode);
  return it == forms->end() ? none : it->second;
}

bool SameWord(std::string_view pattern, std::string_view word) {
  if (!pattern.empty() && pattern.back() == '*')
    return word.substr(0, pattern.size() - 1) == pattern.substr(0, pattern.size() - 1);
  return pattern == word;
}

// Is `word` one of "a|b|c"?
bool OneOf(std::string_view choices, std::string_view word) {
  while (true) {
    size_t bar = choices.find('|');
    if (SameWord(choices.substr(0, bar), word)) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

// Matches modifiers against a pattern, trying optional words both ways.
bool MatchMods(std::string_view pattern, const std::string_view* mods, size_t n, Type* types,
               int found) {
  while (!pattern.empty() && pattern[0] == ' ') pattern.remove_prefix(1);
  if (pattern.empty()) return n == 0;
  size_t end = pattern.find(' ');
  std::string_view item = pattern.substr(0, end);
  std::string_view rest = end == std::string_view::npos ? std::string_view() : pattern.substr(end);
  char kind = item[0];
  bool grouped = kind == '(' || kind == '[' || kind == '<';
  std::string_view choices = grouped ? item.substr(1, item.size() - 2) : item;
  if (n > 0 && OneOf(choices, mods[0])) {
    int next = found;
    if (kind == '<') {
      if (found < 2) types[found] = TypeFromName(mods[0]);
      ++next;
    }
    if (MatchMods(rest, mods + 1, n - 1, types, next)) return true;
  }
  return kind == '[' && MatchMods(rest, mods, n, types, found);
}

// Instructions whose modifiers the assembler takes in any order.
bool AnyOrder(std::string_view opcode) {
  static constexpr std::string_view kOpcodes[] = {
      "ld",  "st",  "atom", "red",  "ldu", "ldmatrix", "stmatrix", "wmma",  "mapa", "add",
      "sub", "mul", "fma",  "mad",  "div", "sqrt",     "rcp",      "rsqrt", "ex2",  "lg2",
      "sin", "cos", "cvt",  "setp", "min", "max",      "neg",      "abs",   "shfl", "bfind"};
  return std::find(std::begin(kOpcodes), std::end(kOpcodes), opcode) != std::end(kOpcodes);
}

// The same as MatchMods for modifiers in any order; `used` has a bit for each that is taken.
bool MatchSet(std::string_view pattern, const std::vector<std::string_view>& mods, uint32_t used,
              Type* types, int found) {
  while (!pattern.empty() && pattern[0] == ' ') pattern.remove_prefix(1);
  if (pattern.empty()) return used + 1 == 1u << mods.size();
  const size_t end = pattern.find(' ');
  const std::string_view item = pattern.substr(0, end);
  const std::string_view rest =
      end == std::string_view::npos ? std::string_view() : pattern.substr(end);
  const char kind = item[0];
  const bool grouped = kind == '(' || kind == '[' || kind == '<';
  const std::string_view choices = grouped ? item.substr(1, item.size() - 2) : item;
  for (size_t k = 0; k < mods.size(); ++k) {
    if ((used >> k & 1) != 0 || !OneOf(choices, mods[k])) continue;
    if (kind == '<' && found < 2) types[found] = TypeFromName(mods[k]);
    if (MatchSet(rest, mods, used | 1u << k, types, found + (kind == '<' ? 1 : 0))) return true;
    break;  // another word of the same set would not do better
  }
  return kind == '[' && MatchSet(rest, mods, used, types, found);
}

constexpr size_t kMostMods = 16;

}  // namespace

bool Decoder::MatchForm(const Statement& s, Matched* out) {
  // Tensor copies have `.cta_group` anywhere among their modifiers; the builder looks at it.
  std::vector<std::string_view> mods = s.mods;
  if (s.opcode == "cp")
    std::erase_if(mods, [](auto m) { return m == "cta_group::1" || m == "cta_group::2"; });
  const bool any_order = AnyOrder(s.opcode) && mods.size() <= kMostMods;
  for (const bool ordered : {true, false}) {
    if (!ordered && !any_order) break;
    for (const Form* form : FormsOf(s.opcode)) {
      const Form& f = *form;
      Type types[2] = {Type::kNone, Type::kNone};
      if (ordered ? !MatchMods(f.mods, mods.data(), mods.size(), types, 0)
                  : !MatchSet(f.mods, mods, 0, types, 0))
        continue;
      out->form = form;
      out->t = types[0];
      out->u = types[1];
      return true;
    }
  }
  auto report = places_.At(diags_.Report(kPtxUnknownForm, {}, s.text), s.line);
  std::string known;
  int shown = 0;
  for (const Form* f : FormsOf(s.opcode)) {
    if (shown == 4) break;
    known += (shown++ > 0 ? "; " : "") + std::string(f->opcode) + " " + std::string(f->mods);
  }
  if (!known.empty()) report.Note("forms of this opcode: " + known);
  return false;
}

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

uint32_t Decoder::Constant(uint64_t bits, bool wide) {
  if (!wide) bits &= 0xffffffffu;
  auto& table = wide ? constants64_ : constants32_;
  auto [it, added] = table.emplace(bits, 0);
  if (added) it->second = ConstantRow(bits, wide);
  return it->second;
}

uint32_t Decoder::ConstantRow(uint64_t bits, bool wide) {
  const size_t at = p_->constants.size(), lane = wide ? 8 : 4;
  p_->constants.resize(at + 32 * lane);
  for (size_t l = 0; l < 32; ++l) memcpy(&p_->constants[at + l * lane], &bits, lane);
  return static_cast<uint32_t>(at) | kConstBit;
}

uint32_t Decoder::NewVReg(int bits, bool pinned) {
  vregs_.push_back({static_cast<uint8_t>(bits), pinned});
  return static_cast<uint32_t>(vregs_.size()) - 1;
}

uint32_t Decoder::SpecialVReg(Special s) {
  auto [it, added] = specials_.emplace(static_cast<int>(s), 0);
  if (added) {
    int bits = TypeBits(SpecialType(s));
    it->second = NewVReg(bits <= 1 ? 1 : bits <= 32 ? 32 : 64, true);
  }
  return it->second;
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

uint32_t Decoder::BeginList(size_t n) {
  uint32_t at = static_cast<uint32_t>(p_->lists.size());
  p_->lists.resize(at + n + 1);
  p_->lists[at] = static_cast<uint32_t>(n);
  return at;
}

void Decoder::SetList(uint32_t list, size_t k, Ref r, bool def, bool also_use) {
  size_t at = list + 1 + k;
  p_->lists[at] = r.value;
  if (r.constant) return;
  RegUse use{};
  use.inst = kPending;
  use.vreg = r.value;
  use.field = static_cast<int32_t>(at) + 8;
  use.def = def;
  use.use = !def || also_use || current_->guard >= 0;
  uses_.push_back(use);
}

bool Decoder::SymbolValue(const Operand& o, Ref* out, int bits) {
  const Variable& v = m_.variables[static_cast<size_t>(o.index)];
  uint64_t base = v.dynamic ? p_->dynamic_offset : v.offset;
  const bool wide = bits == 64;
  if (v.space == Space::kLocal && e_->function) {  // counted from the frame of the call
    if (!wide) return false;
    const Ref offset{true, Constant(base + o.bits, true), 64};
    *out = EmitExtra(current_->line, AluHandler(AluOp::kAdd, Type::kU64, {}), 64,
                     {false, frame_, 64}, &offset);
    return true;
  }
  if (v.space != Space::kShared) {
    *out = {true, Constant(base + o.bits, wide), bits};
    return true;
  }
  // A row of its own, even if a number has the same value: the rank goes into bits 31–24.
  auto [it, added] = shared_rows_.emplace(std::pair(base + o.bits, wide), 0);
  if (added) {
    it->second = ConstantRow(base + o.bits, wide);
    p_->shared_addresses.emplace_back(it->second & ~kConstBit, wide);
  }
  *out = {true, it->second, bits};
  return true;
}

bool Decoder::Source(const Statement& s, size_t index, const Operand& o, Type type, int bits,
                     Ref* out) {
  auto constant = [&](uint64_t v) {
    *out = {true, Constant(v, bits == 64), bits};
    return true;
  };
  int type_bits = bits;
  uint64_t low = type_bits >= 64 ? ~0ull : (1ull << type_bits) - 1;
  switch (o.kind) {
    case Operand::Kind::kRegister: {
      const Register& r = e_->registers[static_cast<size_t>(o.reg)];
      int have = TypeBits(r.type);
      if (have == 8) have = 16;
      if (have != bits)
        return Bad(s, index,
                   fmt::format("`{}` is a .{} register, {} bits are needed", r.Name(),
                               TypeName(r.type), bits));
      *out = {false, first_register_ + static_cast<uint32_t>(o.reg), bits};
      return true;
    }
    case Operand::Kind::kSpecial: {
      Special special = static_cast<Special>(o.index);
      if (TypeBits(SpecialType(special)) != bits)
        return Bad(s, index, "the special register has another width");
      if (special >= Special::kClock && s.opcode != "mov")
        return Bad(s, index, "clocks can only be read by `mov`");
      *out = {false, SpecialVReg(special), bits};
      return true;
    }
    case Operand::Kind::kInt:
      if (bits == 1) return constant(o.bits ? 0xffffffffu : 0);  // a mask of 32 lanes
      if (type == Type::kF32)
        return constant(std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(o.bits))));
      if (type == Type::kF64)
        return constant(std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(o.bits))));
      return constant(o.bits & low);
    case Operand::Kind::kF32:
      if (bits != 32) return Bad(s, index, "a 32-bit float literal does not fit here");
      return constant(o.bits);
    case Operand::Kind::kF64:
      if (bits == 32 && IsFloat(type))
        return constant(std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(o.bits))));
      if (bits != 64) return Bad(s, index, "a 64-bit float literal does not fit here");
      return constant(o.bits);
    case Operand::Kind::kSymbol:
      if (bits < 32) return Bad(s, index, "an address does not fit here");
      if (!SymbolValue(o, out, bits)) return Bad(s, index, "the address has 64 bits");
      return true;
    case Operand::Kind::kFunction:
      if (bits != 64) return Bad(s, index, "an address of a function has 64 bits");
      return constant(FunctionAddress(o.index));
    case Operand::Kind::kLabel:
    case Operand::Kind::kVector:
    case Operand::Kind::kAddress:
    case Operand::Kind::kSink: break;
  }
  return Bad(s, index, "a register or a number is needed");
}

bool Decoder::Destination(const Statement& s, size_t index, const Operand& o, int bits, Ref* out) {
  if (o.kind == Operand::Kind::kSink) {
    *out = {false, NewVReg(bits == 1 ? 1 : bits <= 32 ? 32 : 64), bits};
    return true;
  }
  if (o.kind != Operand::Kind::kRegister) return Bad(s, index, "a register is needed");
  if (o.negated) return Bad(s, index, "a result cannot be negated");
  return Source(s, index, o, Type::kNone, bits, out);
}

bool Decoder::FullAddress(const Statement& s, size_t index, const Operand& o, int bits, Ref* out) {
  if (o.kind != Operand::Kind::kAddress || o.parts.empty())
    return Bad(s, index, "an address in brackets is needed");
  const Operand& base = o.parts[0];
  Ref r;
  if (base.kind == Operand::Kind::kRegister) {
    int have = TypeBits(e_->registers[static_cast<size_t>(base.reg)].type);
    if (have != 32 && have != 64) return Bad(s, index, "an address needs 32 or 64 bits");
    if (!Source(s, index, base, Type::kNone, have, &r)) return false;
  } else if (base.kind == Operand::Kind::kSymbol || base.kind == Operand::Kind::kInt) {
    Operand sum = base;
    sum.bits += o.bits;
    if (base.kind == Operand::Kind::kSymbol &&
        m_.variables[static_cast<size_t>(base.index)].space == Space::kParam)
      return Bad(s, index, "a parameter's generic address is needed, see `cvta.param`");
    if (!Source(s, index, sum, Type::kB64, bits, out)) return false;
    return true;
  } else {
    return Bad(s, index, "an address needs a register or a variable");
  }
  if (r.bits == 64 && bits == 32) r = EmitExtra(s.line, RunCvtU32U64, 32, r);
  if (r.bits == 32 && bits == 64) r = EmitExtra(s.line, RunCvtU64U32, 64, r);
  if (o.bits != 0) {
    Ref offset{true, Constant(o.bits, bits == 64), bits};
    r = EmitExtra(s.line, AluHandler(AluOp::kAdd, bits == 64 ? Type::kU64 : Type::kU32, {}), bits,
                  r, &offset);
  }
  *out = r;
  return true;
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

bool Decoder::VectorOperand(const Statement& s, size_t index, const Operand& o, int bits, Type type,
                            bool def, bool also_use, uint32_t* list) {
  const Operand* parts = &o;
  size_t n = 1;
  if (o.kind == Operand::Kind::kVector) parts = o.parts.data(), n = o.parts.size();
  std::vector<Ref> refs(n);
  for (size_t k = 0; k < n; ++k)
    if (!(def ? Destination(s, index, parts[k], bits, &refs[k])
              : Source(s, index, parts[k], type, bits, &refs[k])))
      return false;
  *list = BeginList(n);
  for (size_t k = 0; k < n; ++k) SetList(*list, k, refs[k], def, also_use);
  return true;
}

Inst Decoder::Start(const Statement& s) const {
  Inst inst;
  inst.line = s.line;
  inst.text = static_cast<uint32_t>(p_->texts.size()) - 1;
  return inst;
}

// Follows the operand pattern of the form. Sources first, because an address may need extra
// instructions, which come before this one.
bool Decoder::Operands(const Statement& s, const Matched& m, Inst* inst) {
  std::string_view pattern = m.form->operands;
  if (pattern == "custom") return true;
  struct Item {
    std::string_view role;
    const Operand* operand;
    size_t index;
    int field;
    Ref ref;
    std::vector<Ref> refs;
    bool second;
  };
  std::vector<Item> items;
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
    items.push_back({item.substr(0, bar), &o, at, field++, {}, {}, false});
    if (bar != std::string_view::npos) {
      if (!o.second.empty())
        items.push_back({item.substr(bar + 1), &o.second[0], at, field, {}, {}, true});
      ++field;
    } else if (!o.second.empty()) {
      return Bad(s, at, "a pair is not expected here");
    }
    ++at;
  }
  if (at < s.operands.size()) return Bad(s, at, "more operands than the form has");

  auto width = [&](std::string_view w, Type* type) -> int {
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
  };
  for (Item& item : items) {
    std::string_view role = item.role;
    const Operand& o = *item.operand;
    Type type = Type::kNone;
    if (role == "i") {
      if (o.kind != Operand::Kind::kInt) return Bad(s, item.index, "a number is needed");
      inst->imm = o.bits;
    } else if (role == "L") {
      if (o.kind != Operand::Kind::kLabel) return Bad(s, item.index, "a label is needed");
    } else if (role == "m") {
      continue;  // by the builder
    } else if (role == "ms" || role == "mg") {
      if (!FullAddress(s, item.index, o, role == "ms" ? 32 : 64, &item.ref)) return false;
    } else if (role == "t") {
      Operand map = o;
      if (map.kind != Operand::Kind::kAddress || map.parts.size() != 2)
        return Bad(s, item.index, "a tensor map and its coordinates are needed");
      if (!FullAddress(s, item.index, map, 64, &item.ref)) return false;
      const Operand& c = o.parts[1];
      size_t n = c.kind == Operand::Kind::kVector ? c.parts.size() : 1;
      item.refs.resize(n);
      for (size_t k = 0; k < n; ++k)
        if (!Source(s, item.index, c.kind == Operand::Kind::kVector ? c.parts[k] : c, Type::kS32,
                    32, &item.refs[k]))
          return false;
    } else if (role[0] == 'd') {
      int bits = width(role.substr(1), &type);
      if (!Destination(s, item.index, o, bits, &item.ref)) return false;
    } else if (role[0] == 's') {
      int bits = width(role.substr(1), &type);
      if (o.negated && bits != 1) return Bad(s, item.index, "only predicates can be negated");
      if (!Source(s, item.index, o, type, bits, &item.ref)) return false;
    }
  }
  for (Item& item : items) {
    std::string_view role = item.role;
    if (role == "i" || role == "L" || role == "m") continue;
    if (role[0] == 'v') {
      Type type = Type::kNone;
      int bits = width(role.substr(2), &type);
      uint32_t list = 0;
      if (!VectorOperand(s, item.index, *item.operand, bits, type, role[1] == 'd', false, &list))
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
