// The verifier of warp programs: proves, for all trip counts and branches, that a program of roles
// cannot hang, that no buffer is read before it is full or refilled before it is free, that phases,
// bytes and arrivals agree, that fences stand where the hardware wants them, and that products are
// awaited before their registers are touched. It believes nothing the lowering thought: it walks
// the emitted program. docs/lowering/proof.md says what is proved and how.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/function.h"
#include "ir/target.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::ir {

inline constexpr int64_t kMostWalkedOps = 4'000'000;

struct WarpCheckOptions {
  explicit WarpCheckOptions(const Target& on) : target(&on) {}
  const Target* target;  // whose limits hold
  int64_t max_states = 6000;
  int64_t max_ops = kMostWalkedOps;  // executed by the walk
  // With so many loops around a wait a program is proved by what its roles agree on, first
  // (agreement.h).
  int agree_depth = 2;
  // So many ops first; if that is no proof, what relates iterations is asked, then for the rest.
  // (Of 1300 programs of the library, at points of their tunes, and of the tests agreement proves
  // most within 10'000 and grouped_dw by 20'565; where it proves none, its ops are the dear ones.)
  int64_t first_agreed_ops = 25'000;
  bool apart = true;  // what roles agree on is asked first, with slots told apart (apart.cc)
  bool widen = true;  // where it has no end, walk once more with carried scalars unknown
};

// What each op was good for on all walks together.
struct WarpOpUse {
  bool reached = false;  // executed at all
  bool needed = false;   // a wait: ended by somebody; an arrive: somebody waited for it; a fence or
                         // barrier: alone orders two accesses; a counter_add: the count was read
  bool holds = false;    // mma_wait: its last operand is a register operand of what it ends
  int64_t largest = -1;  // counter_read: what it gave
  int64_t divides = 0;   // counter_read: the largest number that divides all it gave; 0: all are 0
};

struct WarpCheckStats {
  int64_t states = 0;           // distinct ones in which control was undecided
  int64_t ops = 0;              // executed
  int64_t walked = 0;           // ops of all walks, those included that were no proof
  std::vector<WarpOpUse> uses;  // by op
};

// What was not proved, and where.
struct WarpFinding {
  const DiagDef* def = nullptr;
  Span at;
  std::string message;
  std::vector<std::string> notes;
};

enum class WarpProof : uint8_t {
  kProved,   // for all trip counts and branches
  kRefuted,  // `finding` says what may go wrong
  kGivenUp,  // the walk came to a limit: nothing is known
};

// Which limit, what it was, and how far the walk had come: more than `available` is needed.
enum class WarpLimit : uint8_t { kStates, kOps };

struct WarpVerdict {
  WarpProof proof = WarpProof::kProved;
  WarpCheckStats stats;                  // of the last walk; whole where proved
  std::optional<WarpFinding> finding;    // kRefuted
  WarpLimit limit = WarpLimit::kStates;  // kGivenUp
  int64_t available = 0;
};

// `fn`: a verified warp function.
WarpVerdict ProveWarps(const Function& fn, const WarpCheckOptions& options);

// What is not proved, as a diagnostic.
Result<WarpCheckStats> ReportVerdict(const Function& fn, WarpVerdict verdict, DiagSink& diags);
// Both.
Result<WarpCheckStats> CheckWarps(const Function& fn, const WarpCheckOptions& options,
                                  DiagSink& diags);

}  // namespace tilec::ir
