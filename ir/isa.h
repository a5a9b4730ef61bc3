// What the PTX ISA fixes for every GPU that has the feature, in contrast to what differs between
// machines (ir/machines, ir/target.h). Each line names the section of the ISA's manual.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilec::ir::isa {

inline constexpr int kWarpThreads = 32;               // %laneid
inline constexpr int kWarpgroupWarps = 4;             // four consecutive warps, a quota's grain
inline constexpr int kMostCtaWarps = 32;              // 1024 threads of a block, %ntid
inline constexpr int64_t kMostNamedBarriers = 16;     // bar: operand a is 0 … 15
inline constexpr int64_t kMostThreadRegisters = 255;  // .maxnreg; R255 reads as zero
inline constexpr int64_t kQuotaStep = 8;              // setmaxnreg: a multiple of 8 …
inline constexpr int64_t kLeastQuota = 24;            // … in 24 …
inline constexpr int64_t kMostQuota = 256;            // … 256
inline constexpr int64_t kMostBoxExtent = 256;        // of a dim of a tensor map's box
inline constexpr size_t kMostTensorRank = 5;          // of a tensor map
inline constexpr int64_t kPortableClusterCtas = 8;    // CTAs of a cluster that every GPU with
                                                      // clusters launches
inline constexpr int64_t kBarrierBytes = 8;           // of an mbarrier

// Not the manual's, and of every GPU that has been measured (docs/machine.md):
inline constexpr int64_t kLineBytes = 128;   // that the L2 answers with
inline constexpr int64_t kSectorBytes = 32;  // that it reads and writes

}  // namespace tilec::ir::isa
