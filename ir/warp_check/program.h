// What the verifier asks of a warp function before it walks it: roles, barriers, buffers as ranges
// of bytes, which scalars steer control and slots, which tiles live in the tensor core's registers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/function.h"

namespace tilec::ir::warp_check {

struct RoleInfo {
  OpId op;  // invalid: the common beginning, executed by every warp
  BlockId body;
  std::string name;
  int warps = 0;
};

struct Buffer {
  int64_t offset = 0, slot_bytes = 0, depth = 1;
  int64_t end() const { return offset + depth * slot_bytes; }
  std::string name;           // of what it holds: "`A`"
  std::vector<ValueId> over;  // set aside: the buffers whose bytes it shares (aside.cc)
};

struct Program {
  explicit Program(const Function& function, bool aside = false);

  const Function& fn;
  std::vector<RoleInfo> roles;  // 0: the common beginning
  OpId stray;                   // an op after the roles that does something; invalid: none
  OpId unordered;  // it touches a tensor that copies combine with, in another way; invalid: none

  // Barriers: slots of all mbarriers in a row.
  std::map<ValueId, int> first_slot;
  std::vector<ValueId> slot_mbar;
  int slots() const { return static_cast<int>(slot_mbar.size()); }
  std::vector<int> mbar_of_slot;             // by slot: the number of its mbarrier
  std::vector<std::vector<char>> waits_for;  // by that, by role: it has an op that waits for it
  std::string BarrierName(int slot) const;   // "the full barrier of `A`, `B`, slot 2"

  // Shared memory, cut where any access begins or ends.
  std::map<ValueId, Buffer> buffers;
  std::vector<int64_t> cuts;
  int smem_regions() const { return cuts.empty() ? 0 : static_cast<int>(cuts.size()) - 1; }
  bool HasBytesAlone(ValueId buffer) const;
  bool LiesOverRings() const;  // a buffer that could be set aside
  // Then one region for each tensor that the kernel both reads and writes.
  std::map<ValueId, int> shared_tensors;
  // Then columns of tensor memory, cut likewise.
  std::vector<int64_t> tensor_columns;
  int tensor_regions() const {
    return tensor_columns.empty() ? 0 : static_cast<int>(tensor_columns.size()) - 1;
  }
  int first_tensor_region() const {
    return smem_regions() + static_cast<int>(shared_tensors.size());
  }
  int regions() const { return first_tensor_region() + tensor_regions(); }
  std::pair<int, int> TensorRegionsOf(int64_t first, int64_t end) const;
  // The tensor an op reads or writes in global memory, if it is one of those; invalid: none.
  ValueId SharedTensor(const Op& op, bool* write) const;
  std::pair<int, int> RegionsOf(int64_t begin, int64_t end) const;
  // Does some op write this region through this buffer?
  bool FilledThrough(ValueId buffer, int region) const;
  std::string RegionName(int region) const;
  int64_t BoxBytes(const Op& op) const;
  // Barriers at which threads arrive with their copies.
  std::set<ValueId> by_copies;
  int64_t CopiedBytes(const Op& op) const;  // from the first to the last part's box
  // By region: buffers of which parts of a role write and copy out rows of their own (parts.h).
  std::vector<char> dealt;

  // Scalars that one role hands to another through a buffer of their own (hands.cc).
  struct Hand {
    OpId put, take;
    ValueId given;
  };
  std::vector<Hand> hands;
  std::map<OpId, int32_t> hand_of;        // by op that puts or takes
  std::map<ValueId, int32_t> taken_from;  // by scalar on the other side

  std::vector<char> steers;   // by value: a scalar that control, slots or parities are made of
  std::vector<char> in_core;  // by value: a tile that products in flight touch
  std::vector<char> matters;  // by op: the walk executes it
  std::map<ValueId, int64_t> period;  // of a counter; 0: it is used in some other way
  int64_t max_step = 1;
  std::vector<std::vector<char>> touches;  // by role, by region: it has an op that may access it
  // Roles in the order in which the walk prefers them: the last consumers first (machine.h).
  std::vector<int> consumers_first;
  std::vector<std::vector<char>> loops_at;  // by role, by site: it has a symbolic loop there
  std::map<OpId, int> site;                 // of loops: equal where the source place is equal
  // Loops around loops that wait for barriers: states are compared by the counters of rings, and
  // branches of one role alone may go either way each time.
  bool nests = false;
  int depth = 0;          // loops around a wait for a barrier, the most
  std::set<OpId> lonely;  // branches that no other role has at the same source place

 private:
  void FindRoles();
  void FindBarriers();
  void FindBuffers(bool aside);
  void SetAside();
  void FindHands();
  void FindTensors();
  void FindColumns();
  void FindTiles();
  void FindSteering();
  void FindWork();
  void FindPeriods();
  void FindSites();
  void FindLonely();
  void FindOrder();
  void FindTouches();
  int Depth(BlockId block, int loops) const;
  bool HoldsLoop(const Op& op) const;
  bool Mark(BlockId block);
  std::vector<std::pair<int, int>> Filled(ValueId buffer) const;

  std::map<ValueId, std::vector<std::pair<int, int>>> filled_;
  std::map<ValueId, std::string> mbar_name_;
};

// Every op of a block and of the regions under it, in order.
template <typename F>
void WalkOps(const Function& fn, BlockId block, const F& visit) {
  for (OpId id : fn.blocks[block].ops) {
    visit(id);
    for (BlockId region : fn.ops[id].regions) WalkOps(fn, region, visit);
  }
}

// Where in tensor memory an op begins: at the allocation, or so many columns further for each slot
// of an accumulator (`tmem + slot · pitch`).
struct TensorBase {
  OpId allocation;  // invalid: the address is made in some other way
  ValueId slot;     // invalid: there is one
  int64_t slots = 1, pitch = 0;
};
TensorBase TensorBaseOf(const Function& fn, const Op& op);
int64_t FirstColumnOf(const Function& fn, const TensorBase& base);  // of the allocation
// Runs of columns of tensor memory that an op of a role of so many warps touches: the first, and
// one behind the last. In slot 0, or in all of them.
std::vector<std::pair<int64_t, int64_t>> ScaleColumnsOf(const Function& fn, const Op& op);
std::vector<std::pair<int64_t, int64_t>> TensorColumnsOf(const Function& fn, const Op& op,
                                                         int warps);
std::vector<std::pair<int64_t, int64_t>> AllTensorColumnsOf(const Function& fn, const Op& op,
                                                            int warps);
int WarpgroupAt(const Function& fn, const Op& op, int warps, int64_t column);
// What an access takes its columns for: a tile that begins there, how wide each of its blocks is
// (0: the access does not say), bytes of an element, and blocks of rows (0: one of half the lanes).
struct ColumnTile {
  int64_t column = 0, wide = 0, bytes = 0, blocks = 0;
  auto operator<=>(const ColumnTile&) const = default;
};
ColumnTile TileByThreads(const Function& fn, const Op& op);
ColumnTile SumOfProduct(const Op& op);
ColumnTile LeftOfProduct(const Op& op);
ColumnTile ScalesFrom(int64_t column);
// The slot operand of an access, or invalid.
ValueId SlotOperand(const Op& op, const Function& fn);

}  // namespace tilec::ir::warp_check
