// What the files of the verifier share: each has the rules of one kind of thing, all of them
// members of one class that walks a function once. Included by ir/verify*.cc only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostics.h"
#include "ir/function.h"
#include "ir/text.h"

namespace tilec::ir::verify_internal {

inline bool OneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
inline bool IsBool(DType d) { return d == DType::kBool; }
inline bool IsNumeric(DType d) { return !IsBool(d); }
inline bool IsFp8(DType d) { return d == DType::kE4M3 || d == DType::kE5M2; }

// Where an op stands, as far as the rules ask.
struct Scope {
  int depth = 0;
  bool in_role = false;
  bool in_elect = false;
  int64_t threads = 0;  // of the role, or of the CTA outside roles
  int64_t parts = 1;    // of the role, of which one thread each is elected
};

class Verifier {
 public:
  Verifier(const Function& fn, DiagSink& diags) : fn_(fn), diags_(diags) {}
  Result<> Run();

 private:
  // A failed check reports once and makes the enclosing rule return; rules go on with the next op.
  bool Fail(const DiagDef& def, const Op& op, const std::string& what);
  bool FailHeader(Span at, const std::string& what);
  static constexpr int kMaxReports = 8;
  static constexpr int kMaxDepth = 150;

  // verify.cc: structure, dominance, arity; verify_header.cc
  bool CheckHeader();
  bool CheckParam(const Param& p);
  bool CheckMap(size_t index);
  void CheckBlock(BlockId block, Scope scope);
  bool CheckForm(OpId id);
  bool CheckOperandsVisible(OpId id);
  bool CheckLevel(const Op& op, const Scope& scope);
  bool CheckTypeShape(const Op& op, const Type& t, const Scope& scope);
  bool CheckRegions(const Op& op);
  bool CheckYield(const Op& op, size_t region, const std::vector<ValueId>& targets, size_t leading,
                  const char* what);

  // verify_tile_types.cc, verify_elementwise.cc, verify_access.cc: ops of ops.def
  bool CheckTypes(const Op& op, const Scope& scope);
  bool CheckElementwise(const Op& op);
  bool CheckConstant(const Op& op);
  bool CheckIota(const Op& op);
  bool CheckBroadcastShape(const Op& op);
  bool CheckReshapeShape(const Op& op);
  bool CheckTransposeShape(const Op& op);
  bool CheckReduceShape(const Op& op);
  bool CheckArgReduceShape(const Op& op);
  bool CheckRearrange(const Op& op);
  bool CheckScan(const Op& op);
  bool CheckDot(const Op& op);
  bool CheckScales(const Op& op);
  bool CheckTmemScales(const Op& op, const Scope& scope);
  // load, store, atomic and their warp forms: modes, sizes, operand types against the tensor.
  bool CheckAccess(const Op& op, bool stores, bool atomic);
  bool CheckScalarAccess(const Op& op, bool stores, bool atomic);
  bool CheckFetched(const Op& op);  // what an atomic found
  bool CheckTensorOperand(const Op& op, bool writes);
  bool CheckShared(const Op& op);
  bool CheckParallel(const Op& op);
  bool CheckTogether(const Op& op);
  bool CheckClusterReduce(const Op& op);
  bool BecomesSlices(const Op& op) const;
  bool CheckFor(const Op& op);
  bool CheckPrint(const Op& op);
  bool CheckReduceKind(const Op& op, DType d);
  bool CheckGuard(const Op& op);
  bool CheckAtomicKind(const Op& op, DType d);
  bool CheckCombines(const Op& op, DType d);

  // verify_warp_types.cc, verify_warp_memory.cc: ops of warp_ops.def
  bool CheckWarpTypes(const Op& op, const Scope& scope);
  bool CheckSmemAlloc(const Op& op);
  bool CheckSmemAccess(const Op& op);
  bool CheckConvert(const Op& op);
  bool CheckWarpAtomic(const Op& op);
  bool CheckWarpScan(const Op& op);
  bool CheckWarpReduce(const Op& op, bool arg);
  bool CheckWarpClusterReduce(const Op& op, const Scope& scope);
  bool CheckRole(const Op& op, const Scope& scope);
  bool CheckOfCluster(const Op& op, const char* name, int64_t most);
  bool CheckPair(const Op& op);
  bool CheckMbar(const Op& op);
  bool CheckTma(const Op& op, const Scope& scope);
  bool CheckPanels(const Op& op, const TensorMapInfo& map, size_t first);
  bool CheckCpLoad(const Op& op, const Scope& scope);
  bool CheckParts(const Op& op, const Scope& scope);
  bool CheckEach(const Op& op, const Scope& scope, int64_t box_bytes);
  bool CheckMma(const Op& op, const Scope& scope);
  int64_t WarpsBeside(const Op& op, int warpgroups, WgSplit split);
  bool CheckMmaScales(const Op& op, int warpgroups, WgSplit split, int64_t across);
  bool CheckTensorPlace(const Op& op, int64_t m, int64_t n);
  bool CheckTcMma(const Op& op);
  bool CheckTensorAccess(const Op& op, const Scope& scope);
  bool CheckTmemAlloc(const Op& op);
  bool CheckSimtDot(const Op& op);
  bool CheckWarpBroadcast(const Op& op);
  bool CheckWarpReshape(const Op& op);
  bool CheckWarpColumns(const Op& op);
  bool CheckTiedTiles(const Op& op, size_t count);
  bool CheckScratch(const Op& op, int64_t needed);
  bool CheckSlot(const Op& op, size_t index);
  bool CheckVector(const Op& op);

  const Type& T(ValueId v) const { return fn_.values[v].type; }
  const Type& Operand(const Op& op, size_t i) const { return T(op.operands[i]); }
  const Type& Out(const Op& op, size_t i = 0) const { return T(op.results[i]); }
  bool IsScalar(const Op& op, size_t i, DType d) const {
    return Operand(op, i).is_scalar() && Operand(op, i).dtype == d;
  }
  std::string Show(const Type& t) const { return ToText(t); }

  const Function& fn_;
  DiagSink& diags_;
  int reports_ = 0;
  std::vector<uint8_t> visible_;   // per value: defined and in scope here
  std::vector<uint8_t> seen_ops_;  // per op: already stands in a block
  std::vector<uint8_t> seen_blocks_;
  int parallels_ = 0;
  std::vector<std::pair<int64_t, int64_t>> role_warps_;  // [first, end) of roles met
};

// Rank > 0 tiles whose layouts place equal coordinates in equal threads and registers.
bool SameMapping(const Layout& a, const Layout& b);

}  // namespace tilec::ir::verify_internal
