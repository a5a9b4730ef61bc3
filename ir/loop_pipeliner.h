// Who puts a planned loop in place of a loop: what is in front of its steady state, the steady
// state, and what is behind it.
// Included by the files that define it: pipeline_loop.cc, pipeline_turns.cc.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/loop_plan.h"
#include "ir/pipeline_loop.h"

namespace tilec::ir {

class LoopPipeliner {
 public:
  LoopPipeliner(Function& fn, OpId loop, const LoopPlan& plan, int64_t* next_token);
  bool Run();

 private:
  // A value that lives on into later iterations: through which carried values it is read, and how
  // many iterations back at most.
  struct Crossing {
    BodyRef ref;
    int age = 0;
    std::vector<ValueId> now;    // steady state: instance a + 1 iterations ago
    std::vector<ValueId> last;   // of the loop: the same, seen from the iteration after the last
    std::vector<size_t> places;  // among the carried values, by age
  };
  enum class Kind { kPrologue, kSteady, kEpilogue };
  struct Turn {
    Kind kind = Kind::kSteady;
    int index = 0;     // prologue: turn; epilogue: iterations after the last, 1…
    ValueId position;  // of the iteration of stage 0 (which an epilogue iteration no longer has)
    std::map<ValueId, ValueId> made;                        // by placed ops
    std::map<std::pair<ValueId, int>, ValueId> replicated;  // (value, stage)
    std::map<int, ValueId> positions;                       // by stage
  };
  // Where both ends stand in one turn the token is passed in every iteration that has both. Where
  // the second stands in the next iteration, the steady state finds one token and leaves one: the
  // last prologue iteration or a signal in front of the loop makes it, the first epilogue iteration
  // or a wait behind the loop takes it. That holds for a steady state of no iterations, too.
  struct TokenEnd {
    int64_t id;
    int turns;
    int other_stage;
  };
  // Carried values that start alike and go on alike are one: `a` if a crossing's chain so far is
  // that of an earlier one.
  struct Carried {
    ValueId value, initial;
    int age;
    size_t after;  // index of the one an iteration younger; ages of 1: SIZE_MAX
    auto operator<=>(const Carried&) const = default;
  };
  using CrossingKey = std::pair<ValueId, std::vector<size_t>>;

  int StageOf(ValueId v) const { return stage_of_.at(fn_.values[v].def); }
  static std::pair<ValueId, std::vector<size_t>> Key(const BodyRef& ref) {
    return {ref.value, ref.args};
  }
  bool Placed(ValueId v) const;
  bool Survey();
  bool Survey(ValueId v, int stage);
  void Want(const BodyRef& ref, int age);
  void Tokens();
  bool Active(Kind kind, int index, int stage) const;
  bool Signals(const Turn& turn, const TokenEnd& t) const;
  bool Awaits(const Turn& turn, const TokenEnd& t) const;
  size_t Carry(const Carried& c, std::vector<ValueId>& operands, std::vector<Type>& types);

  // pipeline_turns.cc
  ValueId Position(Builder& b, Turn& turn, int stage);
  ValueId Initial(const BodyRef& ref, int iteration) const;
  ValueId Instance(const Turn& turn, const BodyRef& ref, int age);
  ValueId Get(Builder& b, Turn& turn, ValueId v, int stage);
  OpId Clone(Builder& b, Turn& turn, OpId id, int stage);
  void Emit(Builder& b, Turn& turn);
  void Mark(const Turn& turn, OpId original, OpId copy);
  ValueId Prologue(Builder& b);
  void Steady(Builder& b, ValueId start);
  void Epilogue(Builder& b);
  std::vector<ValueId> Pipelined(Builder& b);
  std::vector<ValueId> AsItWas(Builder& b);
  std::vector<Type> ResultTypes() const;
  void Rewrite();

  Function& fn_;
  OpId loop_id_;
  const Op loop_;  // a copy: the function's ops move
  BlockId body_;
  const LoopPlan& plan_;
  int stages_;
  int64_t step_;
  int64_t* next_token_;
  std::vector<OpId> body_ops_;
  std::vector<ValueId> args_;
  std::map<OpId, int> stage_of_;
  std::map<CrossingKey, Crossing> crossing_;
  std::vector<CrossingKey> crossing_order_;
  std::map<Carried, size_t> carried_;
  std::map<OpId, std::vector<TokenEnd>> signals_, awaits_;
  std::vector<int64_t> signal_before_, await_after_;
  std::vector<Turn> prologue_, epilogue_;
};

}  // namespace tilec::ir
