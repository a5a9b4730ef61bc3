// Warpgroups of a role may meet among themselves, each at a barrier of its own, where nothing that
// one writes is another's to read. The walk follows a role as one: a barrier of parts orders, for
// it, accesses of the whole role to buffers that are dealt out to parts (Program::dealt), and
// nothing else. That is true if, as is checked here,
//
//   - every access to such a buffer is a part's to its own rows: a store whose layout gives each
//     part rows of its own, or a copy out by a thread of that part of the same rows;
//   - no other buffer and no scratch lies over it;
//   - all copies out of the role are by threads of the same parts: which copies a wait is for is
//     counted by each thread.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/parts.h"

#include <fmt/format.h>

#include <map>

#include "ir/layout.h"

namespace tilec::ir::warp_check {
namespace {

class Parts {
 public:
  explicit Parts(const Program& p) : p_(p), fn_(p.fn) {}

  std::optional<Finding> Check() {
    for (size_t r = 0; r < p_.roles.size(); ++r) {
      role_ = static_cast<int>(r);
      parts_of_role_ = 0;
      for (OpId id : fn_.blocks[p_.roles[r].body].ops)
        if (fn_.ops[id].kind != OpKind::kRole) Look(id, 1);
    }
    if (dealt_.empty()) return std::nullopt;
    for (int32_t i = 0; i < fn_.ops.size() && !found_; ++i) Access(OpId(i));
    for (const auto& [v, deal] : dealt_) Alone(v);
    return found_;
  }

 private:
  struct Deal {
    int role = 0;
    int64_t parts = 1, rows = 0;
    OpId at;
  };

  void Fail(OpId at, std::string message) {
    if (found_) return;
    Finding f;
    f.def = &kWarpForm;
    f.at = fn_.ops[at].at;
    f.message = std::move(message);
    found_ = std::move(f);
  }

  // Who copies out what, and in which role an op stands.
  void Look(OpId id, int64_t parts) {
    const Op& op = fn_.ops[id];
    role_of_[id] = role_;
    if (op.kind == OpKind::kElect) parts = op.i("parts", 1);
    if (op.kind == OpKind::kTmaStore) {
      if (parts_of_role_ && parts_of_role_ != parts)
        Fail(id, fmt::format("one thread of each of {} parts copies out, and of {} elsewhere in "
                             "the role",
                             parts, parts_of_role_));
      parts_of_role_ = parts;
      if (parts > 1) {
        const Deal deal{role_, parts, op.ints("each")[1], id};
        const auto [it, fresh] = dealt_.try_emplace(op.operands[0], deal);
        if (it->second.role != role_ || it->second.rows != deal.rows)
          Fail(id, "its buffer is dealt out in other parts elsewhere");
        Copy(op, id, it->second);
      }
    }
    for (BlockId region : op.regions)
      for (OpId inner : fn_.blocks[region].ops) Look(inner, parts);
  }

  // The box lies in the rows of its part, and is all of its columns.
  void Copy(const Op& op, OpId id, const Deal& deal) {
    const Type& t = fn_.type(op.operands[0]);
    const int64_t pitch = t.smem.panel_cols * ByteSize(t.dtype);
    const int64_t own = deal.rows * pitch;
    if (t.depth != 1 || t.smem.cols != t.smem.panel_cols || t.smem.rows != deal.parts * deal.rows ||
        op.ints("each")[2] != own || op.i("offset") + p_.BoxBytes(op) > own)
      Fail(id, fmt::format("parts of {} rows, {} B: the box of a part is not in its own rows",
                           deal.rows, op.ints("each")[2]));
  }

  void Access(OpId id) {
    const Op& op = fn_.ops[id];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const auto deal = dealt_.find(op.operands[i]);
      if (deal == dealt_.end() || !role_of_.count(id)) continue;
      if (op.kind == OpKind::kTmaStore && i == 0) continue;
      const Deal& d = deal->second;
      const bool stores = op.kind == OpKind::kSmemStore && i == 1 && op.operands.size() == 2 &&
                          op.i("transposed", 0) == 0 && role_of_.at(id) == d.role;
      if (!stores || RowsOfParts(fn_.layout(op.operands[0]), static_cast<int>(d.parts)) != d.rows)
        Fail(id, fmt::format("its buffer is dealt out to {} parts of role `{}`, {} rows each; this "
                             "access does not keep to them",
                             d.parts, p_.roles[static_cast<size_t>(d.role)].name, d.rows));
    }
    if (op.attr("scratch") && op.i("scratch") >= 0)
      for (const auto& [v, deal] : dealt_)
        if (p_.buffers.at(v).offset + p_.buffers.at(v).slot_bytes > op.i("scratch"))
          Fail(id, "its scratch may lie over a buffer that is dealt out to parts");
  }

  void Alone(ValueId v) {
    const Buffer& b = p_.buffers.at(v);
    for (const auto& [other, o] : p_.buffers)
      if (other != v && o.offset < b.offset + b.slot_bytes &&
          b.offset < o.offset + o.depth * o.slot_bytes)
        Fail(dealt_.at(v).at, fmt::format("the buffer dealt out to parts lies over {}", o.name));
  }

  const Program& p_;
  const Function& fn_;
  std::map<ValueId, Deal> dealt_;
  std::map<OpId, int> role_of_;
  int role_ = 0;
  int64_t parts_of_role_ = 0;
  std::optional<Finding> found_;
};

}  // namespace

std::optional<Finding> CheckParts(const Program& program) { return Parts(program).Check(); }

}  // namespace tilec::ir::warp_check
