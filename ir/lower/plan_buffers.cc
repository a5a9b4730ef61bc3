// Shared memory: which tiles have buffers, of how many slots, from when to when they are alive, and
// where they lie. Rings live as long as the kernel, for the producer may fill them as early as it
// likes; what a role fills for itself lives from its op to the last reader.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/channels.h"
#include "ir/lower/program_planner.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
// Have threads to read cells around the tile that no thread writes? What is multiplied with them is
// looked at by nobody, but nobody reads what nobody wrote: they are zeroed once. The copy engine
// writes whole boxes.
bool ReadsAround(const Type& type, const Target& target) {
  constexpr int64_t kMatrix = 8;  // rows and columns of 16 bits that are read at a time
  return target.unit().completion == Completion::kAtOnce && type.smem.swizzle_bytes != 0 &&
         (type.smem.rows != type.shape[0] || type.shape[1] % kMatrix != 0);
}
}  // namespace

size_t ProgramPlanner::AddBuffer(const Type& type, const char* holds, bool cleared, int owner,
                                 int64_t begin, int64_t end) {
  const auto apart = [&](const std::pair<int64_t, int64_t>& life) {
    return end < life.first || life.second < begin;
  };
  for (size_t i = 0; share_cleared_ && cleared && i < p_.buffers.size(); ++i) {
    const std::vector<std::pair<int64_t, int64_t>>& filled = filled_[i];
    if (!p_.buffers[i].cleared || p_.buffers[i].type != type || p_.buffers[i].owner != owner ||
        p_.buffers[i].holds != holds || !std::all_of(filled.begin(), filled.end(), apart))
      continue;
    filled_[i].emplace_back(begin, end);
    return i;
  }
  filled_.push_back({{begin, end}});
  PlannedBuffer buffer;
  buffer.type = type;
  buffer.holds = holds;
  buffer.cleared = cleared;
  buffer.owner = owner;
  buffer.begin = cleared ? -1 : begin;
  buffer.end = cleared ? INT64_MAX : end;
  buffer.bytes = SmemBytes(type.smem, type.dtype) * type.depth;
  p_.buffers.push_back(std::move(buffer));
  return p_.buffers.size() - 1;
}

Type ProgramPlanner::BufferType(ValueId v, const SmemLayout& smem, bool transposed) const {
  std::vector<int64_t> shape = in_.type(v).shape;
  if (transposed) std::swap(shape[0], shape[1]);
  return Type::Smem(in_.type(v).dtype, shape, smem);
}

// The end of what is used again in every iteration of the loops around.
int64_t ProgramPlanner::KernelEnd(OpId id) const {
  return positions_.LastUse(in_.blocks[in_.body].ops[0], id);
}

void ProgramPlanner::PlanLoadBuffer(OpId id, const std::map<OpId, int64_t>& load_ends) {
  const LoadPlan& load = tiles_.loads.at(id);
  // Read into registers at once after the wait, which may come as late as the end of the block.
  int64_t begin = positions_.at(id), end = begin;
  const Block& block = in_.blocks[in_.ops[id].block];
  if (load.registers && (load.tma || load.kept)) end = positions_.at(block.ops.back());
  if (const auto read = load_ends.find(id); read != load_ends.end())
    end = std::max(end, read->second);
  Type type = BufferType(in_.ops[id].results[0], load.smem);
  type.shape = load.Own(in_.type(in_.ops[id].results[0])).shape;
  int owner = OwnerOf(id);
  if (auto c = p_.site_of.find(id); c != p_.site_of.end()) {
    const PlannedRing& ring = p_.rings[c->second.first];
    const RingSite& site = ring.sites[c->second.second];
    // The producer may fill it as early as it likes, and again until the loops around end.
    type.depth = ring.slots;
    begin = 0;
    end = std::max(end, KernelEnd(id));
    for (const auto& [role, readers] : site.readers)
      end = std::max(end, positions_.LastUse(id, readers.last));
    // Two roles may read it at any time.
    owner = site.readers.size() == 1 ? site.readers.begin()->first : p_.compute_roles;
    // All sites of a ring fill the same slots.
    const OpId twin = FirstOfPlace(in_, tiles_, ring, c->second.second, id);
    if (auto shared = p_.load_buffers.find(twin); shared != p_.load_buffers.end()) {
      PlannedBuffer& buffer = p_.buffers[shared->second];
      buffer.end = std::max(buffer.end, end);
      p_.load_buffers[id] = shared->second;
      return;
    }
  } else {
    p_.copy_barrier = p_.copy_barrier || load.tma;
  }
  if (owner < 0) sound_ = false;
  p_.load_buffers[id] =
      AddBuffer(type, "loaded", load.zero_padding || (!load.tma && ReadsAround(type, target_)),
                owner, begin, end);
}

void ProgramPlanner::PlanOperandBuffers(OpId id) {
  const DotPlan& dot = tiles_.dots.at(id);
  for (bool is_a : {true, false}) {
    const OperandPlan& operand = is_a ? dot.a : dot.b;
    if (operand.how != OperandPlan::How::kStore) continue;
    if (OwnerOf(id) < 0) sound_ = false;
    OperandRing& ring = p_.operand_rings[p_.operand_ring_of.at({id, is_a})];
    if (ring.buffer) continue;
    Type type = BufferType(operand.source, operand.smem, operand.store_transposed);
    int64_t begin = positions_.at(id), end = begin;
    if (ring.slots > 1 || ring.met) {  // read across iterations, or nobody meets in between
      type.depth = ring.slots;
      begin = 0;
      end = KernelEnd(id);
    }
    ring.buffer = AddBuffer(type, "computed", operand.zero_padding || ReadsAround(type, target_),
                            OwnerOf(id), begin, end);
  }
}

// The buffers of an earlier store by panels in the same loops: each awaits its own copies before it
// writes panels again, and those of stores in front of it are older.
std::optional<size_t> ProgramPlanner::SharedStaging(OpId id, const Type& type,
                                                    int64_t panels) const {
  if (options_.staging != SequentialOptions::Staging::kShares || panels == 0 || !InLoop(in_, id))
    return std::nullopt;
  for (const auto& [other, first] : p_.store_buffers) {
    const PlannedBuffer& buffer = p_.buffers[first];
    if (in_.ops[other].block == in_.ops[id].block && p_.epilogues.at(other).panels == panels &&
        buffer.type == type && buffer.owner == OwnerOf(id))
      return first;
  }
  return std::nullopt;
}

void ProgramPlanner::PlanStagingBuffers(OpId id) {
  const StorePlan& store = tiles_.stores.at(id);
  Type type = BufferType(in_.ops[id].operands[1], store.smem);
  int64_t begin = positions_.at(id), end = begin;
  const int64_t panels = p_.epilogues.at(id).panels;
  if (panels > 0) type.shape[1] = type.smem.cols = store.smem.panel_cols;
  if (panels > 0 || p_.epilogues.at(id).drains) {
    // They drain behind what comes next, in every iteration of the loops around.
    begin = 0;
    end = KernelEnd(id);
  }
  if (const std::optional<size_t> shared = SharedStaging(id, type, panels)) {
    p_.store_buffers[id] = *shared;
    return;
  }
  p_.store_buffers[id] = p_.buffers.size();
  for (int64_t p = 0; p < std::max<int64_t>(1, panels); ++p)
    AddBuffer(type, "staged", false, OwnerOf(id), begin, end);
}

// All buffers. Those that are zeroed once live as long as the kernel; of a program of one role that
// has too little memory, those of one type take turns: each writes the cells that the others write,
// and what is around them stays zero. (A recurrent cell whose state of 16 rows is the operand of
// four products: 104 KB of an RTX 5090's 99, or 80.)
void ProgramPlanner::PlanBuffers() {
  AddBuffers();
  if (specialized() || target_.unit().completion != Completion::kAtOnce) return;
  std::vector<BufferLife> lives;
  for (const PlannedBuffer& b : p_.buffers) lives.push_back({b.begin, b.end, b.bytes, b.owner, 0});
  if (PlaceBuffers(lives) <= target_.limits.smem_bytes) return;
  p_.buffers.clear();
  p_.load_buffers.clear();
  p_.store_buffers.clear();
  for (OperandRing& ring : p_.operand_rings) ring.buffer.reset();
  filled_.clear();
  share_cleared_ = true;
  AddBuffers();
}

// In program order: the first site of a ring comes first.
void ProgramPlanner::AddBuffers() {
  std::map<OpId, int64_t> load_ends;
  for (const auto& [id, dot] : tiles_.dots)
    for (const OperandPlan* operand : {&dot.a, &dot.b})
      if (operand->how == OperandPlan::How::kBuffer) {
        const OpId load = in_.values[operand->source].def;
        int64_t& end = load_ends[load];
        end = std::max(end, positions_.LastUse(load, id));
      }
  for (OpId id : OpsInOrder(in_)) {
    if (auto it = tiles_.loads.find(id); it != tiles_.loads.end() && it->second.buffer)
      PlanLoadBuffer(id, load_ends);
    if (tiles_.dots.count(id)) PlanOperandBuffers(id);
    if (auto it = tiles_.stores.find(id); it != tiles_.stores.end() && it->second.tma)
      PlanStagingBuffers(id);
  }
  for (const auto& [id, load] : tiles_.loads)
    if (load.shares.valid()) p_.load_buffers[id] = p_.load_buffers.at(load.shares);
}

}  // namespace tilec::ir
