// Builders of control flow, barriers, warp collectives, asynchronous copies and matrices.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/mma_sync.h"
#include "runtime/emulator/tensor_map.h"
#include "support/check.h"

namespace tilec::runtime::emulator {
namespace {

MBarrierOp MBarrierOpOf(std::string_view name) {
  static constexpr std::pair<std::string_view, MBarrierOp> kNames[] = {
      {"Init", MBarrierOp::kInit},
      {"Inval", MBarrierOp::kInval},
      {"Arrive", MBarrierOp::kArrive},
      {"ArriveNoComplete", MBarrierOp::kArriveNoComplete},
      {"ArriveExpectTx", MBarrierOp::kArriveExpectTx},
      {"ArriveDrop", MBarrierOp::kArriveDrop},
      {"ArriveDropExpectTx", MBarrierOp::kArriveDropExpectTx},
      {"ArriveDropNoComplete", MBarrierOp::kArriveDropNoComplete},
      {"ExpectTx", MBarrierOp::kExpectTx},
      {"CompleteTx", MBarrierOp::kCompleteTx}};
  for (auto [text, op] : kNames)
    if (text == name) return op;
  UNREACHABLE("a row of ptx_isa.def names no mbarrier operation");
}

uint8_t ReduceOpOf(const Statement& s) {
  static constexpr std::string_view kNames[] = {"add", "min", "max", "inc",
                                                "dec", "and", "or",  "xor"};
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (s.Has(kNames[k])) return static_cast<uint8_t>(k);
  return 0xff;
}

}  // namespace

bool Decoder::BuildBra(const Statement& s, const Matched&, Inst* inst) {
  inst->run = RunBra;
  branches_.emplace_back(static_cast<uint32_t>(p_->code.size()), s.operands[0].index);
  return true;
}
bool Decoder::BuildRet(const Statement& s, const Matched&, Inst* inst) {
  const bool returns = function_ >= 0 && s.opcode == "ret";
  inst->run = returns ? RunReturn : RunRet;
  if (returns) inst->imm = static_cast<uint64_t>(function_);
  return true;
}
bool Decoder::BuildTrap(const Statement&, const Matched&, Inst* inst) {
  inst->run = RunTrap;
  return true;
}
bool Decoder::BuildNanosleep(const Statement&, const Matched&, Inst* inst) {
  inst->run = RunNanosleep;
  return true;
}
bool Decoder::BuildSetMaxNReg(const Statement& s, const Matched&, Inst* inst) {
  if (inst->imm < 24 || inst->imm > 256 || inst->imm % 8 != 0)
    return Bad(s, 0, fmt::format("{} is no multiple of 8 between 24 and 256", inst->imm));
  inst->u[0] = s.Has("inc");
  inst->run = RunSetMaxNReg;
  return true;
}
bool Decoder::BuildBar(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = s.Has("arrive");
  inst->u[1] = s.operands.size() > 1;
  inst->u[5] = s.opcode == "bar" || s.Has("aligned");  // `bar` means `barrier.aligned`
  inst->run = RunBar;
  return true;
}

bool Decoder::BuildBarRed(const Statement& s, const Matched&, Inst* inst) {
  size_t n = s.operands.size();
  if (n != 3 && n != 4) return Bad(s, n, "three or four operands are needed");
  bool popc = s.Has("popc");
  if (popc == s.Has("pred")) return Bad(s, 0, ".popc goes with .u32, .and and .or with .pred");
  Ref d, bar, count, p;
  if (!Destination(s, 0, s.operands[0], popc ? 32 : 1, &d) ||
      !Source(s, 1, s.operands[1], Type::kU32, 32, &bar) ||
      (n == 4 && !Source(s, 2, s.operands[2], Type::kU32, 32, &count)) ||
      !Source(s, n - 1, s.operands[n - 1], Type::kPred, 1, &p))
    return false;
  Set(inst, 0, bar, false);
  if (n == 4) Set(inst, 1, count, false);
  Set(inst, 2, p, false);
  Set(inst, 3, d, true);
  inst->u[1] = n == 4;
  inst->u[2] = static_cast<uint8_t>(popc ? 0 : s.Has("and") ? 1 : 2);
  inst->u[3] = s.operands[n - 1].negated;
  inst->u[5] = s.opcode == "bar" || s.Has("aligned");
  inst->run = RunBarRed;
  return true;
}

bool Decoder::BuildBarWarp(const Statement&, const Matched&, Inst* inst) {
  inst->run = RunBarWarp;
  return true;
}
bool Decoder::BuildClusterArrive(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = s.Has("relaxed");
  inst->u[5] = s.Has("aligned");
  inst->run = RunClusterArrive;
  return true;
}
bool Decoder::BuildClusterWait(const Statement& s, const Matched&, Inst* inst) {
  inst->u[5] = s.Has("aligned");
  inst->run = RunClusterWait;
  return true;
}

bool Decoder::BuildShfl(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = static_cast<uint8_t>(s.Has("up") ? 0 : s.Has("down") ? 1 : s.Has("bfly") ? 2 : 3);
  inst->u[1] = !s.operands[0].second.empty();
  inst->run = RunShfl;
  return true;
}
bool Decoder::BuildVote(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = static_cast<uint8_t>(s.Has("all") ? 0 : s.Has("any") ? 1 : s.Has("uni") ? 2 : 3);
  inst->u[1] = s.operands[1].negated;
  inst->run = RunVote;
  return true;
}
bool Decoder::BuildMatch(const Statement& s, const Matched& m, Inst* inst) {
  // The pair of match.all is o[0]|o[1]; match.any has no pair and one operand less.
  bool all = s.Has("all");
  inst->u[0] = all;
  inst->u[1] = !s.operands[0].second.empty();
  inst->u[2] = TypeBits(m.t) == 64;
  inst->run = RunMatch;
  return true;
}
bool Decoder::BuildActiveMask(const Statement&, const Matched&, Inst* inst) {
  inst->run = RunActiveMask;
  return true;
}
bool Decoder::BuildRedux(const Statement& s, const Matched& m, Inst* inst) {
  inst->u[0] = static_cast<uint8_t>(s.Has("add")   ? 0
                                    : s.Has("min") ? 1
                                    : s.Has("max") ? 2
                                    : s.Has("and") ? 3
                                    : s.Has("or")  ? 4
                                                   : 5);
  inst->u[1] = m.t == Type::kS32;
  inst->run = RunRedux;
  return true;
}
bool Decoder::BuildElect(const Statement& s, const Matched&, Inst* inst) {
  inst->u[1] = !s.operands[0].second.empty();
  inst->run = RunElect;
  return true;
}

bool Decoder::BuildMBarrier(const Statement& s, const Matched& m, Inst* inst) {
  MBarrierOp op = MBarrierOpOf(m.form->argument);
  inst->u[0] = static_cast<uint8_t>(op);
  // Arrivals have a result first; init, inval, expect_tx and complete_tx do not.
  bool result = m.form->operands[0] == 'd';
  inst->u[1] = result && s.operands[0].kind != Operand::Kind::kSink;
  inst->u[2] = static_cast<uint8_t>(s.operands.size());
  inst->u[3] = result;
  inst->u[4] = s.Has("shared::cluster");
  inst->u[6] = OrderIn(s, judge::Order::kRelease, judge::Scope::kCta);
  if (inst->u[4] && inst->u[1]) return Bad(s, 0, "a remote arrival returns no state, write `_`");
  inst->run = RunMBarrier;
  return true;
}
bool Decoder::BuildMBarrierPending(const Statement&, const Matched&, Inst* inst) {
  inst->run = RunMBarrierPending;
  return true;
}
bool Decoder::BuildMBarrierWait(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = s.Has("try_wait");
  inst->u[1] = s.Has("parity");
  inst->u[6] = OrderIn(s, judge::Order::kAcquire, judge::Scope::kCta);
  inst->run = RunMBarrierWait;
  return true;
}

bool Decoder::BuildCpAsync(const Statement& s, const Matched&, Inst* inst) {
  if (inst->imm != 4 && inst->imm != 8 && inst->imm != 16)
    return Bad(s, 2, "a copy has 4, 8 or 16 bytes");
  if (s.Has("cg") && inst->imm != 16) return Bad(s, 2, ".cg copies 16 bytes");
  if (s.operands.size() > 4) return Bad(s, 4, "a cache policy after a source size is not handled");
  inst->u[0] = s.operands.size() > 3;
  inst->run = RunCpAsync;
  return true;
}
bool Decoder::BuildCpAsyncArrive(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = s.Has("noinc");
  inst->run = RunCpAsyncArrive;
  return true;
}
bool Decoder::BuildBulkLoad(const Statement& s, const Matched&, Inst* inst) {
  inst->u[0] = s.Has("multicast::cluster");
  inst->u[1] = s.Has("shared::cluster");
  inst->run = RunBulkLoad;
  return true;
}
bool Decoder::BuildBulkShared(const Statement&, const Matched&, Inst* inst) {
  inst->run = RunBulkShared;
  return true;
}
bool Decoder::BuildBulkStore(const Statement& s, const Matched&, Inst* inst) {
  if (s.Has("cp_mask")) inst->u[0] = s.Has("L2::cache_hint") ? 4 : 3;  // the operand with the mask
  inst->run = RunBulkStore;
  return true;
}
bool Decoder::BuildBulkReduce(const Statement& s, const Matched& m, Inst* inst) {
  Type t = m.t == Type::kB32 ? Type::kU32 : m.t == Type::kB64 ? Type::kU64 : m.t;
  auto element = ElementFromName(TypeName(t));
  inst->u[0] = ReduceOpOf(s);
  if (!element || !ReduceDefined(static_cast<TmaReduceOp>(inst->u[0]), *element))
    return Refuse("`" + std::string(s.text) + "`: the ISA has no such form");
  inst->u[1] = static_cast<uint8_t>(*element);
  p_->order_sensitive = true;
  inst->run = RunBulkReduce;
  return true;
}

bool Decoder::BuildTensorLoad(const Statement& s, const Matched&, Inst* inst) {
  size_t rank = p_->lists[inst->o[1]] - 1;
  inst->u[3] = s.Has("tile::gather4");
  if (inst->u[3] ? rank != 5 : !s.Has(std::to_string(rank) + "d"))
    return Bad(s, 1, "the rank and the coordinates disagree");
  inst->u[0] = s.Has("multicast::cluster");
  inst->u[1] = s.Has("shared::cluster");
  inst->u[2] = s.Has("cta_group::2") ? 2 : s.Has("cta_group::1") ? 1 : 0;
  inst->run = RunTensorLoad;
  return true;
}
bool Decoder::BuildTensorStore(const Statement& s, const Matched&, Inst* inst) {
  size_t rank = p_->lists[inst->o[0]] - 1;
  inst->u[3] = s.Has("tile::scatter4");
  if (inst->u[3] ? rank != 5 : !s.Has(std::to_string(rank) + "d"))
    return Bad(s, 0, "the rank and the coordinates disagree");
  inst->u[0] = s.Has("reduce") ? ReduceOpOf(s) : 0xff;
  if (s.Has("inc") || s.Has("dec")) p_->order_sensitive = true;
  if (s.Has("reduce") && s.Has("add")) p_->tensor_sums = true;
  inst->run = RunTensorStore;
  return true;
}

bool Decoder::BuildLdMatrix(const Statement& s, const Matched&, Inst* inst) {
  bool store = s.opcode == "stmatrix";
  uint32_t list = inst->o[store ? 1 : 0], address = inst->o[store ? 0 : 1];
  uint32_t count = s.Has("x1") ? 1 : s.Has("x2") ? 2 : 4;
  if (p_->lists[list] != count)
    return Bad(s, store ? 1 : 0, fmt::format("{} registers are needed", count));
  static_cast<void>(address);
  inst->u[0] = store;
  inst->u[1] = s.Has("trans");
  inst->run = RunLdMatrix;
  return true;
}

bool Decoder::BuildMma(const Statement& s, const Matched&, Inst* inst) {
  MmaShape shape;
  shape.k = s.Has("m16n8k4") ? 4 : s.Has("m16n8k8") ? 8 : s.Has("m16n8k16") ? 16 : 32;
  size_t n = s.mods.size();
  auto element = [](std::string_view name) { return *ElementFromName(name); };
  std::string_view names[4] = {s.mods[n - 4], s.mods[n - 3], s.mods[n - 2], s.mods[n - 1]};
  for (std::string_view name : names)
    if (!ElementFromName(name)) return Refuse("`" + std::string(s.text) + "`");
  shape.d = element(names[0]), shape.a = element(names[1]);
  shape.b = element(names[2]), shape.c = element(names[3]);
  shape.satfinite = s.Has("satfinite");
  std::string error;
  if (!ValidateMmaShape(shape, &error)) return Refuse("`" + std::string(s.text) + "`: " + error);
  const int want[4] = {shape.d_registers(), shape.a_registers(), shape.b_registers(),
                       shape.c_registers()};
  for (size_t k = 0; k < 4; ++k)
    if (p_->lists[inst->o[k]] != static_cast<uint32_t>(want[k]))
      return Bad(
          s, k,
          fmt::format("{} registers are needed, {} are given", want[k], p_->lists[inst->o[k]]));
  inst->u[0] = static_cast<uint8_t>(shape.k);
  inst->u[1] = static_cast<uint8_t>(shape.a);
  inst->u[2] = static_cast<uint8_t>(shape.b);
  inst->u[3] = static_cast<uint8_t>(shape.c);
  inst->u[4] = static_cast<uint8_t>(shape.d);
  inst->u[5] = shape.satfinite;
  inst->run = RunMma;
  return true;
}

bool Decoder::BuildWgmma(const Statement& s, const Matched&, Inst* inst) {
  if (m_.target.substr(0, 5) != "sm_90")
    return Refuse(fmt::format("`{}` on .target {}: it needs sm_90a", s.text, m_.target));
  WgmmaShape shape;
  size_t n = s.mods.size();
  std::string_view tile = s.mods[3];  // mma_async sync aligned m64nNkK
  size_t kpos = tile.rfind('k');
  if (tile.size() < 7 || tile.substr(0, 4) != "m64n" || kpos == std::string_view::npos || kpos < 5)
    return Refuse("`" + std::string(s.text) + "`");
  for (char c : tile.substr(4, kpos - 4)) {
    if (c < '0' || c > '9' || shape.n > 999) return Refuse("`" + std::string(s.text) + "`");
    shape.n = shape.n * 10 + (c - '0');
  }
  auto d = ElementFromName(s.mods[s.Has("satfinite") ? 5 : 4]);
  auto ea = ElementFromName(s.mods[n - 2]), eb = ElementFromName(s.mods[n - 1]);
  if (!d || !ea || !eb) return Refuse("`" + std::string(s.text) + "`");
  shape.d = *d, shape.a = *ea, shape.b = *eb;
  shape.satfinite = s.Has("satfinite");
  if (tile.substr(kpos + 1) != std::to_string(shape.k()))
    return Refuse(fmt::format("`{}`: K must be {} for .{}", s.text, shape.k(), s.mods[n - 2]));
  // d, a, b, scale-d, [imm-scale-a, imm-scale-b, [trans-a,] trans-b]
  size_t ops = s.operands.size();
  if (ops < 4) return Bad(s, ops, "missing");
  shape.a_in_registers = s.operands[1].kind == Operand::Kind::kVector;
  int64_t imms[4] = {1, 1, 0, 0};
  size_t count = ops - 4;
  for (size_t k = 0; k < count; ++k) {
    const Operand& o = s.operands[4 + k];
    if (k > 3 || o.kind != Operand::Kind::kInt) return Bad(s, 4 + k, "a constant is needed");
    imms[k] = static_cast<int64_t>(o.bits);
  }
  bool integer = shape.d == Element::kS32;
  bool half = shape.a == Element::kF16 || shape.a == Element::kBf16;
  size_t want = integer ? 0 : half ? (shape.a_in_registers ? 3 : 4) : 2;
  if (count != want)
    return Bad(s, ops, fmt::format("{} constants are needed after the predicate", want));
  if (want >= 2)
    for (size_t k = 0; k < 2; ++k)
      if (imms[k] != 1 && imms[k] != -1) return Bad(s, 4 + k, "the scale must be 1 or -1");
  for (size_t k = 2; k < want; ++k)
    if (imms[k] != 0 && imms[k] != 1) return Bad(s, 4 + k, "the transposition must be 0 or 1");
  shape.negate_a = imms[0] == -1;
  shape.negate_b = imms[1] == -1;
  shape.transpose_a = want == 4 && imms[2] == 1;
  shape.transpose_b = want == 4 ? imms[3] == 1 : want == 3 && imms[2] == 1;
  std::string error;
  if (!ValidateWgmmaShape(shape, &error)) return Refuse("`" + std::string(s.text) + "`: " + error);

  Ref desc_a, desc_b, scale;
  if (!shape.a_in_registers && !Source(s, 1, s.operands[1], Type::kB64, 64, &desc_a)) return false;
  if (!Source(s, 2, s.operands[2], Type::kB64, 64, &desc_b)) return false;
  const Operand& p = s.operands[3];
  if (p.kind == Operand::Kind::kInt) {  // 0 or 1 written out
    if (p.bits > 1) return Bad(s, 3, "scale-d must be a predicate, 0 or 1");
    inst->u[1] = static_cast<uint8_t>(1 + p.bits);
  } else if (!Source(s, 3, p, Type::kPred, 1, &scale)) {
    return false;
  }
  inst->u[2] = p.negated;
  uint32_t acc = 0, fragment = 0;
  if (!VectorOperand(s, 0, s.operands[0], {32, Type::kNone, true, true}, &acc)) return false;
  if (p_->lists[acc] != static_cast<uint32_t>(shape.accumulators()))
    return Bad(
        s, 0,
        fmt::format("{} registers are needed, {} are given", shape.accumulators(), p_->lists[acc]));
  if (shape.a_in_registers) {
    if (!VectorOperand(s, 1, s.operands[1], {32, Type::kNone}, &fragment)) return false;
    if (p_->lists[fragment] != 4) return Bad(s, 1, "4 registers are needed");
  }
  inst->o[0] = acc;
  inst->o[1] = fragment;
  if (!shape.a_in_registers) Set(inst, 2, desc_a, false);
  Set(inst, 3, desc_b, false);
  if (inst->u[1] == 0) Set(inst, 4, scale, false);
  inst->imm = p_->wgmma.size();
  p_->wgmma.push_back(shape);
  inst->run = RunWgmma;
  return true;
}

}  // namespace tilec::runtime::emulator
