// Operands by themselves: constants, virtual registers, addresses of variables, lists. decode.cc
// follows the pattern of a form and asks for them.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"

#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {

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

}  // namespace tilec::runtime::emulator
