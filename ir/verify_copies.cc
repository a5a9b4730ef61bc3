// The verifier's rules for copies between tensors and shared memory: boxes of TMA,
// tiles by threads, and the parts of a role that copy for themselves.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/queries.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {

// Panels of a map are whole: of rows that end amid one, a copy of several is in front of it.
bool Verifier::CheckPanels(const Op& op, const TensorMapInfo& map, size_t first) {
  const Param* p = fn_.param(map.tensor);
  const int64_t extent = p->dims[static_cast<size_t>(map.dims[0])].value;
  if (extent % map.panel == 0) return true;
  const ValueId at = op.operands[first];
  int64_t start = 0;
  const Op* sum = fn_.def(at);
  const bool two = sum && sum->kind == OpKind::kAdd;
  for (const ValueId v : two ? sum->operands : std::vector<ValueId>{at}) {
    const int64_t* part = IntConstantOf(fn_, v);
    if (!part)
      return Fail(kVerifyForm, op,
                  fmt::format("panels of {} from a place that is not known, in a dim of {}",
                              map.panel, extent));
    start += *part;
  }
  const int64_t end = start + map.panel * map.box.back();
  return (start >= 0 && start % map.panel == 0 && end <= extent) ||
         Fail(kVerifyForm, op,
              fmt::format("panels of {} from {} to {}, in a dim of {}", map.panel, start, end,
                          extent));
}

bool Verifier::CheckTma(const Op& op, const Scope& scope) {
  if (!scope.in_elect) return Fail(kVerifyLevel, op, "it stands outside an elect");
  const bool load = op.kind == OpKind::kTmaLoad;
  const int64_t index = op.i("map");
  if (index < 0 || index >= static_cast<int64_t>(fn_.launch.maps.size()))
    return Fail(kVerifyForm, op, fmt::format("map {} of {}", index, fn_.launch.maps.size()));
  const TensorMapInfo& map = fn_.launch.maps[index];
  const Type& smem = Operand(op, 0);
  if (smem.kind != TypeKind::kSmem || smem.dtype != T(map.tensor).dtype)
    return Fail(
        kVerifyType, op,
        fmt::format("operand 0 is {}, the map's tensor {}", Show(smem), Show(T(map.tensor))));
  size_t next = 1;
  if (load && Operand(op, next++).kind != TypeKind::kMbar)
    return Fail(kVerifyType, op, fmt::format("operand 1 is {}, not mbar", Show(Operand(op, 1))));
  const int64_t slotted = op.i("slotted");
  if (slotted != 0 && slotted != 1)
    return Fail(kVerifyForm, op, fmt::format("slotted = {}", slotted));
  if (op.operands.size() != next + map.dims.size() + static_cast<size_t>(slotted))
    return Fail(
        kVerifyForm, op,
        fmt::format("{} operands for a map of {} dims", op.operands.size(), map.dims.size()));
  for (size_t i = 0; i < map.dims.size(); ++i, ++next)
    if (!IsScalar(op, next, DType::kI64))
      return Fail(kVerifyType, op, fmt::format("coordinate {} is not an i64", i));
  if (!CheckSlot(op, next)) return false;
  if (map.panel && !CheckPanels(op, map, load ? 2 : 1)) return false;
  int64_t bytes = ByteSize(smem.dtype);
  for (int64_t b : map.box) bytes *= b;
  const int64_t offset = op.i("offset");
  if (!CheckOfCluster(op, "share", SmemBytes(smem.smem, smem.dtype))) return false;
  if (load && !CheckOfCluster(op, "pair", 1)) return false;
  if (op.i("pair", 0) && (op.attr("share") || fn_.launch.cluster != 2))
    return Fail(kVerifyForm, op,
                fmt::format("a copy of a pair, in clusters of {}, {}", fn_.launch.cluster,
                            op.attr("share") ? "to every CTA" : "to its own CTA"));
  const int64_t share = op.i("share", 0), others = share * (fn_.launch.cluster - 1);
  if (share % 128 != 0)
    return Fail(kVerifyMemory, op, fmt::format("parts of {} bytes; a multiple of 128", share));
  if (offset < 0 || offset % 128 != 0 || offset + others + bytes > SmemBytes(smem.smem, smem.dtype))
    return Fail(kVerifyMemory, op,
                fmt::format("a box of {} bytes at byte {} of a buffer of {}; a multiple of 128",
                            bytes, offset + others, SmemBytes(smem.smem, smem.dtype)));
  if (map.swizzle_bytes != smem.smem.swizzle_bytes)
    return Fail(kVerifyMemory, op,
                fmt::format("the map swizzles {} bytes, the buffer {}", map.swizzle_bytes,
                            smem.smem.swizzle_bytes));
  if (op.attr("kind") && (!CheckAtomicKind(op, smem.dtype) || !CheckCombines(op, smem.dtype)))
    return false;
  return CheckEach(op, scope, bytes);
}

// A copy by threads: a tile of two ranges, whole chunks of it, inside the buffer.
bool Verifier::CheckCpLoad(const Op& op, const Scope& scope) {
  if (scope.in_elect) return Fail(kVerifyLevel, op, "it stands inside an elect");
  const Type& tensor = Operand(op, 0);
  const Type& smem = Operand(op, 1);
  if (tensor.kind != TypeKind::kTensor || smem.kind != TypeKind::kSmem ||
      tensor.dtype != smem.dtype || smem.rank() != 2)
    return Fail(kVerifyType, op, fmt::format("{} into {}", Show(tensor), Show(smem)));
  const std::string& modes = op.s("modes");
  const std::vector<int64_t>& sizes = op.ints("sizes");
  const auto rank = static_cast<size_t>(tensor.rank());
  const int64_t slotted = op.i("slotted");
  if (modes.size() != rank || sizes.size() != rank || slotted < 0 || slotted > 1 ||
      op.operands.size() != 2 + rank + static_cast<size_t>(slotted))
    return Fail(kVerifyForm, op,
                fmt::format("{} operands, modes \"{}\" for a tensor of rank {}", op.operands.size(),
                            modes, rank));
  std::vector<int64_t> ranges;
  for (size_t d = 0; d < rank; ++d) {
    if (modes[d] != 'r' && modes[d] != 's')
      return Fail(kVerifyForm, op, fmt::format("mode '{}'; it is r or s", modes[d]));
    if (!IsScalar(op, 2 + d, DType::kI64))
      return Fail(kVerifyType, op, fmt::format("position {} is not an i64", d));
    if (modes[d] == 'r') ranges.push_back(sizes[d]);
  }
  if (ranges.size() != 2 || modes.back() != 'r' || ranges != smem.shape)
    return Fail(kVerifyForm, op,
                fmt::format("ranges of [{}] into {}; two, the last dim's behind",
                            fmt::join(ranges, ", "), Show(smem)));
  const int64_t bytes = op.i("bytes"), size = ByteSize(smem.dtype);
  const int64_t pitch = smem.smem.panel_cols * size;
  const bool whole = bytes > 0 && (bytes & (bytes - 1)) == 0 && bytes >= 4 && bytes <= 16 &&
                     bytes % size == 0 && ranges[1] * size % bytes == 0 && pitch % bytes == 0 &&
                     scope.threads % (pitch / bytes) == 0;
  if (!whole)
    return Fail(kVerifyForm, op,
                fmt::format("{} bytes at a time of rows of {} in panels of {}, by {} threads; 4, 8 "
                            "or 16 that make rows and panels, and as many panel rows as threads",
                            bytes, ranges[1] * size, pitch, scope.threads));
  return CheckSlot(op, 2 + rank);
}

// Equal parts of the role's warps.
bool Verifier::CheckParts(const Op& op, const Scope& scope) {
  if (!op.attr("parts")) return true;
  const int64_t parts = op.i("parts"), warps = scope.threads / 32;
  return (parts >= 2 && parts <= warps && warps % parts == 0) ||
         Fail(kVerifyForm, op, fmt::format("{} parts of {} warps", parts, warps));
}

// A copy by one thread of each part: every one has a box of its own, inside the buffer.
bool Verifier::CheckEach(const Op& op, const Scope& scope, int64_t box_bytes) {
  if (!op.attr("each"))
    return scope.parts == 1 ||
           Fail(kVerifyForm, op,
                fmt::format("{} threads copy the same box: `each` is missing", scope.parts));
  const std::vector<int64_t>& each = op.ints("each");
  if (scope.parts == 1) return Fail(kVerifyForm, op, "`each`, but one thread is elected");
  const TensorMapInfo& map = fn_.launch.maps[op.i("map")];
  if (each.size() != 3 || each[0] < 0 || each[0] >= static_cast<int64_t>(map.dims.size()) ||
      each[1] < 1 || each[2] < box_bytes || each[2] % 128 != 0)
    return Fail(
        kVerifyForm, op,
        fmt::format("`each` is not [coordinate, rows, bytes] for a map of {} dims and a box "
                    "of {} bytes",
                    map.dims.size(), box_bytes));
  const Type& smem = Operand(op, 0);
  const int64_t end = op.i("offset") + each[2] * (scope.parts - 1) + box_bytes;
  return end <= SmemBytes(smem.smem, smem.dtype) ||
         Fail(kVerifyMemory, op,
              fmt::format("the last part's box ends at byte {} of a buffer of {}", end,
                          SmemBytes(smem.smem, smem.dtype)));
}

}  // namespace tilec::ir::verify_internal
