// Entry → Program: match each statement with a row of ptx_isa.def, turn operands into rows, let
// the row's builder pick the handler, then place registers (allocate.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <unordered_map>

#include "runtime/emulator/alu.h"
#include "runtime/emulator/internal.h"

namespace tilec::runtime::emulator {

#define TILEC_BUILDERS(X)                                                                         \
  X(Alu)                                                                                          \
  X(Rounded)                                                                                      \
  X(Special)                                                                                      \
  X(Dp4a)                                                                                         \
  X(Prmt)                                                                                         \
  X(PredicateLogic)                                                                               \
  X(Mov)                                                                                          \
  X(Selp)                                                                                         \
  X(Setp)                                                                                         \
  X(Cvt)                                                                                          \
  X(CvtPack)                                                                                      \
  X(Cvta)                                                                                         \
  X(IsSpace)                                                                                      \
  X(Mapa)                                                                                         \
  X(GetCtaRank)                                                                                   \
  X(Ld) X(St) X(Atom) X(Nothing) X(Sync) X(Policy) X(Bra) X(Ret) X(Trap) X(Nanosleep)             \
      X(SetMaxNReg) X(Bar) X(BarRed) X(BarWarp) X(ClusterArrive) X(ClusterWait) X(Shfl) X(Vote)   \
          X(Match) X(ActiveMask) X(Redux) X(Elect) X(MBarrier) X(MBarrierPending) X(MBarrierWait) \
              X(CpAsync) X(CpAsyncArrive) X(BulkLoad) X(BulkShared) X(BulkStore) X(BulkReduce)    \
                  X(TensorLoad) X(TensorStore) X(LdMatrix) X(Mma) X(Wgmma) X(PrefetchMap)         \
                      X(TensorAlloc) X(TensorMove) X(TensorWait) X(TensorFence) X(TensorCp)       \
                          X(TensorShift) X(TensorCommit) X(TensorMma) X(Call) X(Brx) X(Carry)     \
                              X(Bmsk) X(Szext) X(Mul24) X(Dp2a) X(Fns) X(Testp) X(Approx64)       \
                                  X(Rounded64) X(WmmaMove) X(Wmma) X(SmallMma) X(ScaledMma)       \
                                      X(StoreAsync) X(Video) X(SetTo) X(ReplaceMap) X(CopyMap)    \
                                          X(StoreBulk) X(Mov128) X(TryCancel) X(QueryCancel)      \
                                              X(Pair) X(CvtSat) X(Lop3Bool)

// What a row's `argument` may name: an AluOp or one of these.
enum class Unary : uint8_t {
  kEx2,
  kLg2,
  kRcp,
  kRcpRounded,
  kRsqrt,
  kSqrt,
  kSqrtRounded,
  kTanh,
  kSin,
  kCos,
  kDiv,
};
enum class MBarrierOp : uint8_t {
  kInit,
  kInval,
  kArrive,
  kArriveNoComplete,
  kArriveExpectTx,
  kArriveDrop,
  kArriveDropExpectTx,
  kArriveDropNoComplete,
  kExpectTx,
  kCompleteTx,
};

enum class Builder : uint8_t {
#define X(name) k##name,
  TILEC_BUILDERS(X)
#undef X
};

struct Form {
  std::string_view opcode, mods, operands;
  Builder builder;
  std::string_view argument;
  std::string_view collective;
};

constexpr uint32_t kPending = ~0u;  // RegUse::inst of the instruction being built

// One virtual register: a PTX register, a special one or a temporary.
struct VReg {
  uint8_t bits = 32;    // 1, 32 or 64
  bool pinned = false;  // lives from start to end
};
// A place in the program that names a virtual register.
struct RegUse {
  uint32_t inst;
  uint32_t vreg;
  uint32_t* Field(Program& p) const;
  int32_t field;  // 0…6: o[field]; 7: guard; ≥ 8: lists[field − 8]
  bool def = false, use = false;
  bool late = false;  // the definition may share a row with an operand
};

// Gives every virtual register a row and patches the program. False: reported.
// A register that lives as long as a function runs: where the frame of the call begins.
struct Pinned {
  uint32_t vreg;
  int32_t function;
};

void PlaceRegisters(Program& program, std::vector<VReg>& vregs, std::vector<RegUse>& uses,
                    const std::vector<uint32_t>& special_vregs, const std::vector<Pinned>& pinned);

struct CallGraph;

class Decoder {
 public:
  Decoder(const PtxModule& module, const Entry& entry, const PtxPlaces& places, DiagSink& diags)
      : m_(module), entry_(entry), e_(&entry), places_(places), out_(diags) {}
  Result<std::unique_ptr<Program>> Run();

 private:
  struct Matched {
    const Form* form = nullptr;
    Type t = Type::kNone, u = Type::kNone;
  };
  // An operand as a handler will see it.
  struct Ref {
    bool constant = true;
    uint32_t value = 0;  // row offset of a constant, or virtual register
    int bits = 32;       // width of a register
  };

  bool One(const Statement& s);
  bool MatchForm(const Statement& s, Matched* out);
  // An operand as the form's pattern names it, and the field of the instruction that it goes to.
  struct Item {
    std::string_view role;
    const Operand* operand;
    size_t index;
    int field;
    Ref ref;
    std::vector<Ref> refs;  // coordinates of a tensor map
  };
  bool SplitOperands(const Statement& s, std::string_view pattern, std::vector<Item>* items);
  static int WidthOf(const Matched& m, std::string_view w, Type* type);
  bool TensorOperand(const Statement& s, Item* item);
  bool ReadItem(const Statement& s, const Matched& m, Item* item, Inst* inst);
  bool Operands(const Statement& s, const Matched& m, Inst* inst);
  bool Bad(const Statement& s, size_t operand, const std::string& what);
  bool Refuse(const std::string& what);

  void DescribeEntry();
  bool DescribeFunctions(const CallGraph& graph);
  // Builds a body; `function` −1: the entry's.
  bool Body(const Entry& body, int32_t function);
  void NameShared();
  Ref Guard(const Statement& s) const {
    return {false, first_register_ + static_cast<uint32_t>(s.guard), 1};
  }
  // Variables of the parameter space that a call hands over: offset and bytes in local memory.
  bool CallParameters(const Statement& s, size_t index,
                      std::vector<std::pair<uint64_t, uint64_t>>* out);
  bool InLocal(const Operand& o) const;
  // The registers of a fragment of wmma.
  bool Fragment(const Statement& s, size_t index, Type type, uint32_t elements, bool def,
                uint32_t* list);
  // An instruction that the emulator lacks: it stops the run if it is reached.
  bool Defer(const Statement& s);
  uint32_t Constant(uint64_t bits, bool wide);
  uint32_t ConstantRow(uint64_t bits, bool wide);  // a new one
  uint32_t NewVReg(int bits, bool pinned = false);
  uint32_t SpecialVReg(Special s);
  // Source operand of `bits` bits (1: predicate). `type` decides how literals are read.
  bool Source(const Statement& s, size_t index, const Operand& o, Type type, int bits, Ref* out);
  bool Destination(const Statement& s, size_t index, const Operand& o, int bits, Ref* out);
  bool SymbolValue(const Operand& o, Ref* out, int bits);
  // Address folded to one register of `bits` bits with its offset added.
  bool FullAddress(const Statement& s, size_t index, const Operand& o, int bits, Ref* out);
  void Set(Inst* inst, int field, Ref r, bool def, bool late = false);
  uint32_t BeginList(size_t n);
  void SetList(uint32_t list, size_t k, Ref r, bool def, bool also_use = false);
  // The registers of a vector: how wide, of which type (kNone: any), and whether they are written,
  // or written and read.
  struct VectorUse {
    int bits;
    Type type;
    bool def = false, also_use = false;
  };
  bool VectorOperand(const Statement& s, size_t index, const Operand& o, const VectorUse& use,
                     uint32_t* list);
  // The address of ld, st, atom: o[field], imm, and what Locate needs in u[0…2].
  bool AddressOperand(const Statement& s, size_t index, Inst* inst, int field, Space space,
                      bool generic);
  bool WideRegister(const Statement& s, size_t index, const Operand& o, Type type, bool def,
                    Ref* out);
  bool InSixteenths() const;  // strides that `tensormap.replace` gets
  // The two halves of a register of 128 bits, low first.
  bool Halves(const Statement& s, size_t index, const Operand& o, Ref out[2]);
  Inst Start(const Statement& s) const;
  // Which instructions touch registers that wgmma works on (judge/registers.h).
  void WatchRegisters();
  // Which instructions read registers that tcgen05.ld writes.
  void WatchLoads();
  // tcgen05: the target has it, and all instructions of the kernel say the same `.cta_group`.
  bool TensorTarget(const Statement& s, TensorInst* t);
  bool TensorAddressOperand(const Statement& s, size_t index, Inst* inst, int field);
  // Relaxed loads that a branch depends on, with an access behind it and no fence between.
  void FindUnfencedControls();
  // An extra instruction without a guard: d = op(a, b).
  Ref EmitExtra(int line, Handler h, int bits, Ref a, const Ref* b = nullptr, uint64_t imm = 0);

#define X(name) bool Build##name(const Statement& s, const Matched& m, Inst* inst);
  TILEC_BUILDERS(X)
#undef X

  const PtxModule& m_;
  const Entry& entry_;
  const Entry* e_;  // the body being built
  const PtxPlaces& places_;
  DiagSink& out_;
  DiagSink diags_;  // of the statement being built
  std::unique_ptr<Program> p_;
  const Statement* current_ = nullptr;
  std::vector<VReg> vregs_;
  std::vector<RegUse> uses_;
  int32_t function_ = -1;        // being built
  uint32_t first_register_ = 0;  // of the body being built, in vregs_
  uint32_t frame_ = 0;           // register of a function's frame
  int64_t carry_ = -1;           // register of the carry of `add.cc`, −1 until it is named
  std::unordered_map<uint32_t, uint32_t> upper_;  // register of 128 bits → that of its upper half
  std::vector<Pinned> pinned_;
  std::vector<std::pair<uint32_t, int32_t>> branches_;  // instruction, label
  std::unordered_map<uint64_t, uint32_t> constants32_, constants64_;
  std::map<std::pair<uint64_t, bool>, uint32_t> shared_rows_;
  std::map<int, uint32_t> specials_;
  std::unordered_map<std::string_view, uint32_t> texts_;
  uint32_t tensor_group_ = 0;  // .cta_group of the tcgen05 instructions so far
};

}  // namespace tilec::runtime::emulator
