// --tune=measure: the model's best points are timed on the device, and the fastest is taken.
//
// Candidates, kMostCandidates at most, best by the model first: its choice; the points of tunes
// that it lowered, then those that are best by bounds; and of the first two points the other ways
// of the grid (solve:once, solve:clusters, solve:split=2), where --schedule leaves that open. What
// does not compile or gives a program that another gave already is left out. The rest are compiled
// side by side and timed in turns by successive halving (api/halving.h). The model's choice stays
// in to the end and stands unless another is 1 % faster.
//
// Tensors are the measurement's own, so the caller's are left alone, whatever the kernel does to
// them: several sets, so that the L2 is as cold as between layers of a model. Floating-point ones
// hold random numbers; what integers and bools hold steers kernels, and whoever asks says it.
//
// What was found is kept in the cache, by device and driver, compiler, texts, sizes and all else
// that a program depends on, so the next process takes the same without measuring.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "api/tune.h"
#include "api/tune_file.h"
#include "runtime/device.h"

namespace tilec::api {

constexpr size_t kMostCandidates = 20;

struct TuneCandidate {
  frontend::Values values;  // of the open tunes; empty: the defaults
  std::string schedule;     // "": as the options say
  double predicted_ms = 0;  // 0: not known
};

// The model's choice is the first.
std::vector<TuneCandidate> CandidatesFor(const Loaded& loaded, const frontend::Signature& signature,
                                         const Call& call, const PipelineOptions& options);
// "BM=64 BN=128, solve:once"; "the defaults".
std::string TextOf(const TuneCandidate& candidate);

// What a tensor of integers or bools holds while candidates are timed, all of its storage; empty:
// zeros.
using ContentsOf = std::function<std::vector<std::byte>(const frontend::ParamInfo& param,
                                                        const runtime::TensorView& view)>;

// Beside PipelineOptions::tune: what measuring needs, and where the answer is kept.
struct MeasureBy {
  runtime::Device* device = nullptr;  // null: there is none, `why_none` says why
  std::string why_none;
  double seconds = 1;
  bool beside = false;   // beside the host's launches: kept apart from what had the device alone
  double faster = 0.01;  // what another has to be, to take the place of the model's choice
  size_t threads = 16;   // that compile, at most
  runtime::StreamId stream = 0;                 // that launches are in
  const std::atomic<bool>* stop = nullptr;      // when it is set, whatever was found is nothing
  const runtime::KernelCache* cache = nullptr;  // may be null
  Remembered remembered;                        // of the model's choices
  bool anew = false;                            // what the cache has is not asked for
  ContentsOf contents = nullptr;
  std::string compiler;  // "": CompilerVersion()
  bool say = false;      // a note tells what was measured
};

struct MeasuredCandidate {
  TuneCandidate candidate;
  double ms = 0;   // of a launch, the median of its last round; 0: not timed
  int rounds = 0;  // that it was in
};

struct Measured {
  std::vector<MeasuredCandidate> candidates;  // best first; empty where it was kept from before
  size_t offered = 0, same = 0, failed = 0;   // of all: those that others equal, and no programs
  double spent_ms = 0;                        // of launches
  bool complete = true;                       // else the seconds were spent first
  bool kept = false;                          // from the cache
  TunesRow row;                               // what to use, with both times
  std::string why_not;                        // nothing was measured: why
  TuneCandidate model;                        // what the model takes
};

// `call`: with the tensors and scalars of a launch, whose addresses mean nothing.
Measured MeasureTunes(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                      const PipelineOptions& options, const MeasureBy& by, DiagSink& diags);

// A call with tensors, from one that has values alone; nothing if these do not give all shapes, and
// `why` says so.
std::optional<Call> WithTensors(const Loaded& loaded, const frontend::Signature& signature,
                                const Call& call, std::string* why);

// What PipelineOptions::tune asks the open tunes of the call to be.
struct Tuning {
  frontend::Values values;
  std::string schedule;  // "": as the options say
};
Result<Tuning> TuningFor(const Loaded& loaded, const frontend::Signature& signature,
                         const Call& call, const PipelineOptions& options, const MeasureBy& by,
                         DiagSink& diags);

}  // namespace tilec::api
