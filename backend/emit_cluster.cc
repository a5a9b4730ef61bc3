// Tiles that the CTAs of a cluster combine (warp_cluster_reduce).
//
// Registers are taken as they are, whatever the layout: element e of thread t's part p lies in slot
// p at (e / v)·threads·v + t·v + e mod v elements, v being the width of an access, so the lanes of
// a warp touch consecutive bytes. A remote read is a load like any other; several are issued before
// the first is used, for each takes about a microsecond. Warps that hold nothing of the tile move
// nothing: of sixteen rows in an instruction of 64, three in four. Where parts are slices, slot p
// has the registers of the p-th run of columns, and what CTA p adds up is what it goes on with.
//
// What is small and for all CTAs is not fetched but sent (ir/pushed_tile.h; one number by lane q of
// the first warp to CTA q): the receiver's barrier counts the bytes (st.async), so what another CTA
// has is here one way after it was known there, and read where everybody is. Fetching takes three
// ways one after the other: an arrival, a read there and back, and an arrival that nobody reads any
// more.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backend/cluster_rank.h"
#include "backend/emitter.h"
#include "ir/layout.h"
#include "ir/pushed_tile.h"
#include "support/check.h"
#include "support/expr.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;

namespace {
constexpr int64_t kInFlight = 64;  // registers of reads that are issued together

// Bit w: warp w of the role holds something of a tile. (A thread's first register has the least
// coordinates of all of its.)
uint32_t WarpsThatHold(const ir::Layout& layout, const std::vector<int64_t>& shape, int64_t warps) {
  uint32_t out = 0;
  for (int64_t thread = 0; thread < 32 * warps; ++thread) {
    const std::vector<int64_t> at = layout.ThreadCoord(thread);
    bool inside = true;
    for (size_t d = 0; d < shape.size(); ++d) inside = inside && at[d] < shape[d];
    if (inside) out |= uint32_t{1} << (thread / 32);
  }
  return out;
}

// A thread's registers, slice after slice; the last slice may be shorter.
Regs InSlices(const ir::Function& fn, const ir::Op& op, const Regs& own) {
  const ir::Layout &from = fn.layout(op.operands[0]), &to = fn.layout(op.results[0]);
  const int64_t width = fn.type(op.results[0]).shape.back();
  const int64_t columns = fn.type(op.operands[0]).shape.back();
  llvm::Value* none = llvm::Constant::getNullValue(own[0]->getType());
  Regs out;
  for (int64_t p = 0; p < op.i("slices"); ++p) {
    const auto map = ir::ColumnsMap(from, to, p * width, columns);
    CHECK(map, "a slice that is in other registers of other threads");
    for (int at : *map) out.push_back(at < 0 ? none : own[static_cast<size_t>(at)]);
  }
  return out;
}
}  // namespace

// What the warp has written is seen by whoever waits for the phase: lane q arrives at CTA q's
// barrier, once all lanes have come here.
void Emitter::ReleaseToCluster(llvm::Value* barriers, int64_t number) {
  CallPtx(b_, PtxInst::kWarpSync, {});
  const int64_t ctas = fn_.launch.cluster;
  llvm::Value* lane = b_.CreateAnd(role_.thread, I32(31));
  llvm::Value* mine = b_.CreateICmpULT(lane, I32(ctas));
  llvm::Value* cta = RankOfLane(b_, lane, mine, ctas);
  llvm::Value* there = CallPtx(b_, PtxInst::kMapa, {b_.CreateAdd(barriers, I32(8 * number)), cta});
  CallPtx(b_, PtxInst::kMbarReleaseAt, {there, mine});
}

// The first phase of the barrier; it has no other.
void Emitter::AcquireOfCluster(llvm::Value* barriers, int64_t number) {
  llvm::Value* address = b_.CreateAdd(barriers, I32(8 * number));
  llvm::BasicBlock* loop = NewBlock("wait");
  llvm::BasicBlock* done = NewBlock("wait.end");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  b_.CreateCondBr(CallPtx(b_, PtxInst::kMbarTryAcquire, {address, I32(0)}), done, loop);
  b_.SetInsertPoint(done);
}

// Two of what CTAs have.
llvm::Value* Emitter::Combined(const std::string& kind, DType d, llvm::Value* x, llvm::Value* y) {
  if (kind == "add") return ir::IsFloat(d) ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y);
  const bool max = kind == "max";
  CHECK(max || kind == "min", "cluster_reduce " + kind);
  if (!ir::IsFloat(d)) return IntBinary(max ? OpKind::kMax : OpKind::kMin, x, y, d);
  return b_.CreateBinaryIntrinsic(max ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum, x, y);
}

// Which of the threads that hold the same registers this one is, and which of those that hold
// different ones.
std::pair<llvm::Value*, llvm::Value*> Emitter::ReplicaAndHolder(const ir::Layout& layout) {
  llvm::Value* of[] = {I32(0), I32(0)};
  int64_t weight[] = {1, 1}, thread = 1;
  for (const ir::LayoutDigit& digit : layout.thread) {
    const int at = digit.dim < 0 ? 0 : 1;
    llvm::Value* n = b_.CreateURem(b_.CreateUDiv(role_.thread, I32(thread)), I32(digit.extent));
    of[at] = b_.CreateAdd(of[at], b_.CreateMul(n, I32(weight[at])));
    weight[at] *= digit.extent;
    thread *= digit.extent;
  }
  return {of[0], of[1]};
}

// In the order of ranks, as where it is fetched: the same bits.
void Emitter::EmitPushed(const ir::Op& op) {
  const ir::Type& smem = fn_.type(op.operands[1]);
  const ir::Type& tile = fn_.type(op.operands[0]);
  const DType d = smem.dtype;
  const int64_t ctas = fn_.launch.cluster, slot = ir::SmemBytes(smem.smem, d);
  llvm::Value *buffer = Scalar(op.operands[1]), *barrier = Scalar(op.operands[2]);
  Regs own;
  ir::PushedTile sent;
  llvm::Value *first = role_.thread, *place = buffer;  // the CTA it sends to; where in a slot
  if (tile.layout.valid()) {
    const ir::Layout& layout = fn_.layout(op.operands[0]);
    own = Get(op.operands[0]);
    sent = *ir::PushedTileOf(layout, tile.shape);
    const auto [replica, holder] = ReplicaAndHolder(layout);
    first = replica;
    place = b_.CreateAdd(buffer, b_.CreateMul(holder, I32(4 * sent.registers)));
  } else {
    own = {Scalar(op.operands[0])};
    sent.replicas = int64_t{32} * role_.warps;
  }
  const int64_t bytes = 4 * sent.registers * sent.holders * ctas;
  CallPtx(b_, PtxInst::kMbarExpectIf, {barrier, I32(bytes), b_.CreateICmpEQ(role_.thread, I32(0))});
  llvm::Value* to =
      b_.CreateAdd(place, b_.CreateMul(CallPtx(b_, PtxInst::kClusterRank, {}), I32(slot)));
  for (int64_t q = 0; q < ctas; q += sent.replicas) {
    llvm::Value* number = q == 0 ? first : b_.CreateAdd(first, I32(q));
    llvm::Value* mine = b_.CreateICmpULT(number, I32(ctas));
    llvm::Value* cta = RankOfLane(b_, number, mine, ctas);
    llvm::Value* arrival = CallPtx(b_, PtxInst::kMapa, {barrier, cta});
    for (size_t e = 0; e < own.size(); ++e) {
      llvm::Value* there = e == 0 ? to : b_.CreateAdd(to, I32(4 * static_cast<int64_t>(e)));
      CallPtx(b_, PtxInst::kStAsync,
              {CallPtx(b_, PtxInst::kMapa, {there, cta}), b_.CreateBitCast(own[e], b_.getInt32Ty()),
               arrival, mine});
    }
  }
  AcquireOfCluster(barrier, 0);
  const int64_t vector = sent.registers % 4 == 0 ? 4 : sent.registers % 2 == 0 ? 2 : 1;
  const Regs nothing(static_cast<size_t>(vector), llvm::Constant::getNullValue(own[0]->getType()));
  Regs total;
  for (int64_t q = 0; q < ctas; ++q)
    for (int64_t e = 0; e < sent.registers; e += vector) {
      const Regs there =
          LoadGlobal(place, q * slot + 4 * e, nullptr, nothing, d, PtxInst::kLdShared);
      for (int64_t i = 0; i < vector; ++i) {
        const auto at = static_cast<size_t>(e + i);
        if (q == 0)
          total.push_back(there[static_cast<size_t>(i)]);
        else
          total[at] = Combined(op.s("kind"), d, total[at], there[static_cast<size_t>(i)]);
      }
    }
  Set(op.results[0], total);
}

// The numbers of one value that the CTAs of a cluster share out, add up and read.
struct Emitter::ClusterSum {
  Emitter& emit;
  const std::string& kind;
  DType d;
  int64_t ctas, parts, threads;
  int64_t all;                // registers
  int64_t count, vector;      // registers of a part, of an access
  bool uneven;                // the last parts have less, or nothing
  llvm::Value *rank, *holds;  // `holds`: null: always
  Regs nothing;

  llvm::Value* Always(int64_t) const { return holds; }
  // Has this CTA's part a register `e`?
  llvm::Value* InPart(int64_t e) const {
    const int64_t ranks = uneven ? CeilDiv(all - e, count) : parts;
    if (ranks >= ctas) return holds;
    llvm::Value* has = emit.b_.CreateICmpULT(rank, emit.I32(ranks));
    return holds ? emit.b_.CreateAnd(holds, has) : has;
  }
  using Where = llvm::Value* (ClusterSum::*)(int64_t) const;  // which of the two decides
  void Store(llvm::Value* to, const Regs& regs, Where where) const;
  Regs Sum(llvm::Value* from, llvm::Value* begin, Where where) const;
};

void Emitter::ClusterSum::Store(llvm::Value* to, const Regs& regs, Where where) const {
  for (int64_t e = 0; e < static_cast<int64_t>(regs.size()); e += vector)
    emit.StoreGlobal(to, e * threads * 4, (this->*where)(e),
                     Regs(regs.begin() + e, regs.begin() + e + vector), d, PtxInst::kStShared);
}

// `count` registers from the same place of every CTA, combined in the order of ranks from `begin`
// on: CTAs that begin with themselves do not all ask the same one at a time.
Regs Emitter::ClusterSum::Sum(llvm::Value* from, llvm::Value* begin, Where where) const {
  std::vector<llvm::Value*> there;
  for (int64_t q = 0; q < ctas; ++q) {
    llvm::Value* cta = RankOf(emit.b_, emit.b_.CreateAdd(begin, emit.I32(q)), ctas);
    there.push_back(CallPtx(emit.b_, PtxInst::kMapa, {from, cta}));
  }
  Regs out;
  const int64_t together = std::max<int64_t>(1, kInFlight / (ctas * vector)) * vector;
  for (int64_t e = 0; e < count; e += together) {
    std::vector<Regs> read(static_cast<size_t>(ctas));
    const int64_t end = std::min(count, e + together);
    for (int64_t i = e; i < end; i += vector) {
      llvm::Value* const inside = (this->*where)(i);
      for (int64_t q = 0; q < ctas; ++q)
        for (llvm::Value* v : emit.LoadGlobal(there[static_cast<size_t>(q)], i * threads * 4,
                                              inside, nothing, d, PtxInst::kLdCluster))
          read[static_cast<size_t>(q)].push_back(v);
    }
    for (size_t i = 0; i < read[0].size(); ++i) {
      llvm::Value* total = read[0][i];
      for (size_t q = 1; q < read.size(); ++q) total = emit.Combined(kind, d, total, read[q][i]);
      out.push_back(total);
    }
  }
  return out;
}

Result<void> Emitter::EmitClusterReduce(const ir::Op& op) {
  AwaitCluster();
  if (fn_.type(op.operands[2]).depth == 1 && !op.attr("slices")) {
    EmitPushed(op);
    return Done();
  }
  const ir::Type& smem = fn_.type(op.operands[1]);
  const DType d = smem.dtype;
  const int64_t ctas = fn_.launch.cluster, parts = smem.depth;
  const int64_t threads = int64_t{32} * role_.warps;
  const std::string& kind = op.s("kind");
  const Regs own = Get(op.operands[0]);
  // Where parts are not equal, the last ones have less, or nothing.
  const auto all = static_cast<int64_t>(own.size());
  const int64_t slices = op.i("slices", 0);
  // The barrier that says that nobody reads any more; 0: others do until the CTAs meet.
  const int64_t last = fn_.type(op.operands[2]).depth - 1;
  const int64_t count = ir::SmemBytes(smem.smem, d) / (4 * threads);
  const int64_t vector = count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
  const int64_t slot = count * threads * 4;
  const bool uneven = slices == 0 && parts * count != all;
  llvm::Value* barriers = Scalar(op.operands[2]);
  llvm::Value* mine =
      b_.CreateAdd(Scalar(op.operands[1]), b_.CreateMul(role_.thread, I32(4 * vector)));
  llvm::Value* rank = CallPtx(b_, PtxInst::kClusterRank, {});
  llvm::Value* zero = llvm::Constant::getNullValue(own[0]->getType());
  const Regs nothing(static_cast<size_t>(vector), zero);
  llvm::Value* holds = nullptr;  // null: always
  if (const ir::Type& tile = fn_.type(op.operands[0]); tile.layout.valid()) {
    const uint32_t those = WarpsThatHold(fn_.layout(op.operands[0]), tile.shape, role_.warps);
    if (those != (uint32_t{1} << role_.warps) - 1)
      holds = b_.CreateTrunc(b_.CreateLShr(b_.getInt32(those), b_.CreateLShr(role_.thread, I32(5))),
                             b_.getInt1Ty());
  }

  const ClusterSum of = {*this, kind,   d,      ctas, parts, threads, all,
                         count, vector, uneven, rank, holds, nothing};
  Regs whole = own;
  if (slices > 0) whole = InSlices(fn_, op, own);
  while (whole.size() % static_cast<size_t>(vector) != 0) whole.push_back(zero);
  of.Store(mine, whole, &ClusterSum::Always);  // slots follow each other as parts do
  ReleaseToCluster(barriers, 0);
  AcquireOfCluster(barriers, 0);
  llvm::Value* part = parts > 1 ? b_.CreateAdd(mine, b_.CreateMul(rank, I32(slot))) : nullptr;
  if (slices > 0) {
    const Regs total = of.Sum(part, rank, &ClusterSum::InPart);
    if (last > 0) {
      ReleaseToCluster(barriers, last);
      AcquireOfCluster(barriers, last);
    }
    Set(op.results[0], total);
    return Done();
  }
  if (parts > 1) {
    of.Store(part, of.Sum(part, rank, &ClusterSum::InPart), &ClusterSum::InPart);
    ReleaseToCluster(barriers, 1);
  }
  if (op.i("all", 0) != 0) {
    const Regs total = of.Sum(mine, I32(0), &ClusterSum::Always);
    ReleaseToCluster(barriers, last);
    AcquireOfCluster(barriers, last);
    Set(op.results[0], total);
    return Done();
  }
  llvm::BasicBlock* from = b_.GetInsertBlock();
  llvm::BasicBlock* first = NewBlock("first");
  llvm::BasicBlock* join = NewBlock("first.end");
  b_.CreateCondBr(b_.CreateICmpEQ(rank, I32(0)), first, join);
  b_.SetInsertPoint(first);
  Regs total;
  if (parts > 1) {
    AcquireOfCluster(barriers, 1);
    for (int64_t q = 0; q < parts; ++q) {
      llvm::Value* there = CallPtx(b_, PtxInst::kMapa, {b_.CreateAdd(mine, I32(q * slot)), I32(q)});
      for (int64_t e = 0; e < std::min(count, all - q * count); e += vector)
        for (llvm::Value* v :
             LoadGlobal(there, e * threads * 4, holds, nothing, d, PtxInst::kLdCluster))
          total.push_back(v);
    }
    total.resize(own.size());  // of the last access some were nobody's
  } else {
    total = of.Sum(mine, I32(0), &ClusterSum::Always);
  }
  llvm::BasicBlock* end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  Regs result;
  for (llvm::Value* v : total) {
    llvm::PHINode* phi = b_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, end);
    phi->addIncoming(zero, from);
    result.push_back(phi);
  }
  ReleaseToCluster(barriers, last);
  AcquireOfCluster(barriers, last);
  Set(op.results[0], result);
  return Done();
}

}  // namespace tilec::backend
