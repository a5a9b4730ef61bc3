// Builders of loads, stores, atomics and address conversions.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"
#include "runtime/emulator/exec_atomic.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {
namespace {

// The state space an opcode names; generic without one.
bool SpaceOf(const Statement& s, Space* space) {
  if (s.Has("shared") || s.Has("shared::cta") || s.Has("shared::cluster"))
    *space = Space::kShared;
  else if (s.Has("global"))
    *space = Space::kGlobal;
  else if (s.Has("const"))
    *space = Space::kConst;
  else if (s.Has("local"))
    *space = Space::kLocal;
  else if (s.Has("param") || s.Has("param::entry") || s.Has("param::func"))
    *space = Space::kParam;
  else
    return false;
  return true;
}

}  // namespace

judge::Scope ScopeIn(const Statement& s, judge::Scope otherwise) {
  if (s.Has("cta")) return judge::Scope::kCta;
  if (s.Has("cluster")) return judge::Scope::kCluster;
  return s.Has("gpu") || s.Has("sys") || s.Has("gl") ? judge::Scope::kGpu : otherwise;
}

// What an access or arrival says about order; `otherwise` if nothing.
uint8_t OrderIn(const Statement& s, judge::Order otherwise, judge::Scope scope) {
  judge::Order order = s.Has("acq_rel")                        ? judge::Order::kAcqRel
                       : s.Has("acquire")                      ? judge::Order::kAcquire
                       : s.Has("release")                      ? judge::Order::kRelease
                       : s.Has("relaxed") || s.Has("volatile") ? judge::Order::kRelaxed
                                                               : otherwise;
  const uint8_t packed = PackOrder(order, ScopeIn(s, scope));
  return s.Has("volatile") ? packed | kVolatileOrder : packed;
}

namespace {

size_t VectorLength(const Statement& s) {
  return s.Has("v2") ? 2 : s.Has("v4") ? 4 : s.Has("v8") ? 8 : 1;
}

}  // namespace

bool Decoder::AddressOperand(const Statement& s, size_t index, Inst* inst, int field, Space space,
                             bool generic) {
  const Operand& o = s.operands[index];
  if (o.kind != Operand::Kind::kAddress || o.parts.size() != 1)
    return Bad(s, index, "an address in brackets is needed");
  const Operand& base = o.parts[0];
  Ref r;
  int bits = 64;
  if (base.kind == Operand::Kind::kRegister) {
    bits = TypeBits(e_->registers[static_cast<size_t>(base.reg)].type);
    if (bits != 32 && bits != 64) return Bad(s, index, "an address needs 32 or 64 bits");
  } else if (base.kind == Operand::Kind::kSymbol) {
    Space actual = m_.variables[static_cast<size_t>(base.index)].space;
    bool fits = actual == space || (space == Space::kGlobal && actual == Space::kConst);
    if (generic) fits = actual == Space::kGlobal || actual == Space::kConst;
    if (!fits) return Bad(s, index, "the variable is in another state space");
  } else if (base.kind != Operand::Kind::kInt) {
    return Bad(s, index, "an address needs a register or a variable");
  }
  if (!Source(s, index, base, Type::kB64, bits, &r)) return false;
  Set(inst, field, r, false);
  inst->imm = o.bits;
  inst->u[0] = static_cast<uint8_t>(space);
  inst->u[1] = generic;
  inst->u[2] = r.bits == 64;
  return true;
}

// Is an address of the parameter space one of local memory here? That is where the parameters of
// functions and of calls lie.
bool Decoder::InLocal(const Operand& o) const {
  if (o.kind != Operand::Kind::kAddress || o.parts.empty()) return false;
  const Operand& base = o.parts[0];
  if (base.kind == Operand::Kind::kSymbol)
    return m_.variables[static_cast<size_t>(base.index)].space == Space::kLocal;
  return e_->function && base.kind == Operand::Kind::kRegister;
}

bool Decoder::BuildLd(const Statement& s, const Matched& m, Inst* inst) {
  if (s.operands.size() != 2 && s.operands.size() != 3)
    return Bad(s, s.operands.size(), "a register and an address are needed");
  Space space = Space::kGlobal;
  bool generic = !SpaceOf(s, &space);
  const bool whole = m.t == Type::kB128;  // as two halves
  const Type type = whole ? Type::kB64 : m.t;
  size_t n = VectorLength(s);
  Operand d = s.operands[0];
  if (n == 1 && d.kind == Operand::Kind::kVector && d.parts.size() == 1) {  // `{ %r1 }`
    const Operand only = d.parts[0];
    d = only;
  }
  if (n > 1 && (d.kind != Operand::Kind::kVector || d.parts.size() != n))
    return Bad(s, 0, fmt::format("a vector of {} registers is needed", n));
  const Operand* parts = n > 1 ? d.parts.data() : &d;
  std::vector<Ref> refs(whole ? 2 : n);
  if (whole && !Halves(s, 0, d, refs.data())) return false;
  for (size_t k = 0; k < n && !whole; ++k) {
    if (parts[k].kind == Operand::Kind::kVector) return Bad(s, 0, "a single register is needed");
    if (!WideRegister(s, 0, parts[k], m.t, true, &refs[k])) return false;
  }
  n = refs.size();
  const Operand& a = s.operands[1];
  if (space == Space::kParam && !generic && InLocal(a)) space = Space::kLocal;
  bool symbol = a.kind == Operand::Kind::kAddress && a.parts.size() == 1 &&
                a.parts[0].kind == Operand::Kind::kSymbol &&
                m_.variables[static_cast<size_t>(a.parts[0].index)].space == Space::kParam;
  if (space == Space::kParam && !generic && symbol) {
    const Variable& v = m_.variables[static_cast<size_t>(a.parts[0].index)];
    inst->imm = v.offset + a.parts[0].bits + a.bits;
    uint64_t bytes = static_cast<uint64_t>(TypeBits(type)) / 8 * n;
    if (inst->imm > e_->param_bytes || bytes > e_->param_bytes - inst->imm)
      return Bad(s, 1, "the load leaves the parameters");
    if (inst->imm % (static_cast<uint64_t>(TypeBits(type)) / 8) != 0)
      return Bad(s, 1, "the load is misaligned");
    inst->run = RunLdParam;
  } else {
    if (!AddressOperand(s, 1, inst, 0, space, generic)) return false;
    inst->run = RunLd;
  }
  inst->u[3] = static_cast<uint8_t>(type);
  inst->u[6] = OrderIn(s, judge::Order::kWeak, judge::Scope::kGpu);
  uint32_t list = BeginList(n);
  for (size_t k = 0; k < n; ++k) SetList(list, k, refs[k], true);
  inst->o[1] = list;
  inst->u[4] = static_cast<uint8_t>(refs[0].bits);
  for (const Ref& r : refs)
    if (r.bits != refs[0].bits) return Bad(s, 0, "registers of different widths");
  return true;
}

bool Decoder::BuildSt(const Statement& s, const Matched& m, Inst* inst) {
  if (s.operands.size() != 2 && s.operands.size() != 3)
    return Bad(s, s.operands.size(), "an address and a register are needed");
  Space space = Space::kGlobal;
  bool generic = !SpaceOf(s, &space);
  const bool whole = m.t == Type::kB128;  // as two halves
  size_t n = VectorLength(s);
  Operand v = s.operands[1];
  if (n == 1 && v.kind == Operand::Kind::kVector && v.parts.size() == 1) {
    const Operand only = v.parts[0];
    v = only;
  }
  if (n > 1 && (v.kind != Operand::Kind::kVector || v.parts.size() != n))
    return Bad(s, 1, fmt::format("a vector of {} registers is needed", n));
  const Operand* parts = n > 1 ? v.parts.data() : &v;
  std::vector<Ref> refs(whole ? 2 : n);
  if (whole && !Halves(s, 1, v, refs.data())) return false;
  for (size_t k = 0; k < n && !whole; ++k) {
    if (parts[k].kind == Operand::Kind::kVector) return Bad(s, 1, "a single register is needed");
    if (!WideRegister(s, 1, parts[k], m.t, false, &refs[k])) return false;
    if (std::max(refs[k].bits, 32) != std::max(refs[0].bits, 32))
      return Bad(s, 1, "registers of different widths");
  }
  n = refs.size();
  if (space == Space::kParam && !generic && InLocal(s.operands[0])) space = Space::kLocal;
  if (!AddressOperand(s, 0, inst, 0, space, generic)) return false;
  uint32_t list = BeginList(n);
  for (size_t k = 0; k < n; ++k) SetList(list, k, refs[k], false);
  inst->o[1] = list;
  inst->u[3] = static_cast<uint8_t>(whole ? Type::kB64 : m.t);
  inst->u[4] = static_cast<uint8_t>(refs[0].bits);
  inst->u[6] = OrderIn(s, judge::Order::kWeak, judge::Scope::kGpu);
  inst->run = RunSt;
  return true;
}

bool Decoder::BuildAtom(const Statement& s, const Matched& m, Inst* inst) {
  static constexpr std::pair<std::string_view, AtomOp> kOps[] = {
      {"add", AtomOp::kAdd}, {"min", AtomOp::kMin}, {"max", AtomOp::kMax},   {"and", AtomOp::kAnd},
      {"or", AtomOp::kOr},   {"xor", AtomOp::kXor}, {"exch", AtomOp::kExch}, {"cas", AtomOp::kCas},
      {"inc", AtomOp::kInc}, {"dec", AtomOp::kDec}};
  AtomOp op = AtomOp::kAdd;
  for (auto [name, value] : kOps)
    if (s.Has(name)) op = value;
  if (!AtomDefined(op, m.t))
    return Refuse("`" + std::string(s.text) + "`: the ISA has no such form");
  Space space = Space::kGlobal;
  bool generic = !SpaceOf(s, &space);
  bool returns = s.opcode == "atom";
  if ((s.operands.size() == 4) != (op == AtomOp::kCas))
    return Bad(s, 2, "only .cas takes two values");
  if (!AddressOperand(s, returns ? 1 : 0, inst, returns ? 1 : 0, space, generic)) return false;
  inst->u[3] = static_cast<uint8_t>(m.t);
  inst->u[4] = static_cast<uint8_t>(op);
  inst->u[5] = returns ? kAtomReturns : kAtomReduces;
  if (const size_t n = VectorLength(s); n > 1) {  // red of f32 in global memory alone
    if (s.operands.size() != 2 || s.operands[1].kind != Operand::Kind::kVector ||
        s.operands[1].parts.size() != n)
      return Bad(s, 1, fmt::format("a vector of {} registers is needed", n));
    std::vector<Ref> refs(n);
    for (size_t k = 0; k < n; ++k)
      if (!WideRegister(s, 1, s.operands[1].parts[k], m.t, false, &refs[k])) return false;
    const uint32_t list = BeginList(n);
    for (size_t k = 0; k < n; ++k) SetList(list, k, refs[k], false);
    inst->o[1] = list;
    inst->u[5] = kAtomOfVector;
  }
  inst->u[6] = OrderIn(s, judge::Order::kRelaxed, judge::Scope::kGpu);
  inst->run = RunAtom;
  bool commutes = !IsFloat(m.t) && op != AtomOp::kExch && op != AtomOp::kCas &&
                  op != AtomOp::kInc && op != AtomOp::kDec;
  if (space == Space::kGlobal && (returns || !commutes)) p_->order_sensitive = true;
  return true;
}

bool Decoder::BuildNothing(const Statement& s, const Matched&, Inst* inst) {
  // Operands of prefetches to caches and of fences are not looked at, save that they must parse.
  if (s.opcode == "cp" && s.Has("commit_group") && !s.operands.empty())
    return Bad(s, 0, "no operand is expected");
  inst->run = RunNothing;
  return true;
}

bool Decoder::BuildPrefetchMap(const Statement& s, const Matched&, Inst* inst) {
  if (s.operands.size() != 1) return Bad(s, s.operands.size(), "one address is needed");
  Space space = Space::kGlobal;
  const bool generic = !SpaceOf(s, &space);
  if (!AddressOperand(s, 0, inst, 0, space, generic)) return false;
  inst->run = RunPrefetchMap;
  return true;
}

bool Decoder::BuildSync(const Statement& s, const Matched&, Inst* inst) {
  auto kind = [&](SyncKind k, unsigned a = 0, unsigned b = 0) {
    inst->u[0] = static_cast<uint8_t>(k);
    inst->u[1] = static_cast<uint8_t>(a);
    inst->u[2] = static_cast<uint8_t>(b);
  };
  inst->run = RunSync;
  if (s.opcode == "wgmma") {
    kind(s.Has("fence")          ? SyncKind::kWgmmaFence
         : s.Has("commit_group") ? SyncKind::kWgmmaCommit
                                 : SyncKind::kWgmmaWait);
  } else if (s.opcode == "cp") {
    if (s.Has("commit_group") && !s.operands.empty()) return Bad(s, 0, "no operand is expected");
    bool commit = s.Has("commit_group");
    if (s.Has("bulk"))
      kind(commit ? SyncKind::kBulkCommit : SyncKind::kBulkWait, s.Has("read"));
    else
      kind(commit              ? SyncKind::kCpCommit
           : s.Has("wait_all") ? SyncKind::kCpWaitAll
                               : SyncKind::kCpWait);
  } else if (s.Has("mbarrier_init")) {
    kind(SyncKind::kInitFence);
  } else if (s.Has("tensormap::generic")) {
    if (s.Has("release")) return kind(SyncKind::kTensorMapRelease), true;
    kind(SyncKind::kTensorMapAcquire);
    Ref address;
    if (s.operands.empty()) return Bad(s, 0, "an address is needed");
    if (!FullAddress(s, 0, s.operands[0], 64, &address)) return false;
    Set(inst, 0, address, false);
  } else if (s.Has("proxy")) {
    bool async = false, shared = false, global = false;
    for (std::string_view m : s.mods) {
      async = async || m == "async" || m == "async::generic";
      global = global || m == "global";
      shared = shared || m.substr(0, 6) == "shared" || m.substr(0, 13) == "sync_restrict";
    }
    if (!shared && !global) shared = global = true;
    if (async) kind(SyncKind::kProxyAsync, (shared ? 1u : 0) | (global ? 2u : 0));
  } else {
    unsigned sides = s.Has("acquire") ? 1 : s.Has("release") ? 2 : 3;
    // `membar` is another name of fence.sc; a fence that does not say is fence.acq_rel.
    if (s.opcode == "membar" || s.Has("sc"))
      kind(SyncKind::kScFence, 0, static_cast<unsigned>(ScopeIn(s, judge::Scope::kGpu)));
    else
      kind(SyncKind::kThreadFence, sides);
  }
  return true;
}

bool Decoder::BuildPolicy(const Statement& s, const Matched&, Inst* inst) {
  Ref d;
  if (s.operands.empty()) return Bad(s, 0, "missing");
  if (!Destination(s, 0, s.operands[0], 64, &d)) return false;
  Set(inst, 0, d, true, true);
  Set(inst, 1, {true, Constant(0, true), 64}, false);
  inst->run = AluHandler(AluOp::kMov, Type::kB64, {});
  return true;
}

bool Decoder::BuildCvta(const Statement& s, const Matched& m, Inst* inst) {
  Space space = Space::kGlobal;
  SpaceOf(s, &space);
  if (m.t != Type::kU64) return Refuse("32-bit generic addresses");
  inst->u[0] = static_cast<uint8_t>(space);
  inst->u[1] = s.Has("to");
  inst->run = RunCvta;
  return true;
}

bool Decoder::BuildIsSpace(const Statement& s, const Matched&, Inst* inst) {
  Space space = Space::kGlobal;
  SpaceOf(s, &space);
  inst->u[0] = static_cast<uint8_t>(space);
  inst->u[1] = s.Has("shared::cta");
  inst->run = RunIsSpace;
  return true;
}

bool Decoder::BuildMapa(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = s.Has("shared::cluster");
  inst->u[1] = m.t == Type::kU64;
  inst->run = RunMapa;
  return true;
}

bool Decoder::BuildGetCtaRank(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = s.Has("shared::cluster");
  inst->u[1] = m.t == Type::kU64;
  inst->run = RunGetCtaRank;
  return true;
}

}  // namespace tilec::runtime::emulator
