// PipelineLoop: whatever order, stages and roles a schedule asks for, every value stays the same
// bit for bit, for every trip count.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/pipeline_loop.h"

#include "ir/arms.h"
#include "tests/unit/lower/helper.h"

#include <gtest/gtest.h>

#include <random>

namespace tilec::ir {
namespace {

// Two chained products, values carried over one and two iterations, a carried scalar, a value that
// two iterations read.
constexpr const char* kLoop = R"(func @chain tile {
  param tensor %Q: tensor<bf16, 2> in [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %K: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %V: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %q = load %Q, %m, %0 {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
      %z = constant {value = 0} : f32[64, 64]
      %r0 = constant {value = 1} : f32[64]
      %o0 = constant {value = 3} : f32[64]
      %c0 = constant {value = 7} : i32
      %acc, %row, %old, %count = for %0, %L, %z, %r0, %o0, %c0 {step = 32}
          : f32[64, 64], f32[64], f32[64], i32
          do (%k: i64, %a: f32[64, 64], %r: f32[64], %before: f32[64], %c: i32) {
        %kt = load %K, %k, %0 {modes = "rr", sizes = [32, 64]} : bf16[32, 64]
        %kx = transpose %kt {perm = [1, 0]} : bf16[64, 32]
        %zs = constant {value = 0} : f32[64, 32]
        %s = dot %q, %kx, %zs : f32[64, 32]
        %p = exp2 %s : f32[64, 32]
        %pb = cast %p : bf16[64, 32]
        %sum = reduce %p {kind = "sum", axis = 1} : f32[64]
        %half = constant {value = 0.5} : f32[64]
        %r1 = mul %r, %half : f32[64]
        %r2 = add %r1, %sum : f32[64]
        %one = constant {value = 1} : i32
        %c1 = add %c, %one : i32
        %cf = cast %c : f32
        %cb = broadcast %cf {axes = []} : f32[64]
        %r3 = add %before, %cb : f32[64]
        %r4 = mul %r3, %r1 : f32[64]
        %rb = broadcast %r4 {axes = [0]} : f32[64, 64]
        %as = mul %a, %rb : f32[64, 64]
        %v = load %V, %k, %0 {modes = "rr", sizes = [32, 64]} : bf16[32, 64]
        %n = dot %pb, %v, %as : f32[64, 64]
        yield %n, %r2, %r, %c1
      }
      %both = add %row, %old : f32[64]
      %cf2 = cast %count : f32
      %cb2 = broadcast %cf2 {axes = []} : f32[64]
      %three = add %both, %cb2 : f32[64]
      %rowb = broadcast %three {axes = [0]} : f32[64, 64]
      %out = add %acc, %rowb : f32[64, 64]
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      store %O, %out, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)";

// The same with branches in the loop: over a product with a load of its own, nested over
// arithmetic, and one of two results, of which one is a scalar that is carried.
constexpr const char* kBranches = R"(func @branches tile {
  param tensor %Q: tensor<bf16, 2> in [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %K: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %V: tensor<bf16, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %q = load %Q, %m, %0 {modes = "rr", sizes = [64, 64]} : bf16[64, 64]
      %z = constant {value = 0} : f32[64, 64]
      %r0 = constant {value = 1} : f32[64]
      %o0 = constant {value = 3} : f32[64]
      %c0 = constant {value = 7} : i32
      %acc, %row, %old, %count = for %0, %L, %z, %r0, %o0, %c0 {step = 32}
          : f32[64, 64], f32[64], f32[64], i32
          do (%k: i64, %a: f32[64, 64], %r: f32[64], %before: f32[64], %c: i32) {
        %kt = load %K, %k, %0 {modes = "rr", sizes = [32, 64]} : bf16[32, 64]
        %kx = transpose %kt {perm = [1, 0]} : bf16[64, 32]
        %zs = constant {value = 0} : f32[64, 32]
        %s = dot %q, %kx, %zs : f32[64, 32]
        %p = exp2 %s : f32[64, 32]
        %pb = cast %p : bf16[64, 32]
        %two = constant {value = 64} : i64
        %rest = mod %k, %two : i64
        %even = cmp %rest, %0 {pred = "eq"} : bool
        %sum = if %even : f32[64] do {
          %all = reduce %p {kind = "sum", axis = 1} : f32[64]
          yield %all
        } do {
          yield %r
        }
        %half = constant {value = 0.5} : f32[64]
        %r1 = mul %r, %half : f32[64]
        %r2 = add %r1, %sum : f32[64]
        %nine = constant {value = 9} : i32
        %few = cmp %c, %nine {pred = "lt"} : bool
        %n, %c1 = if %few : f32[64, 64], i32 do {
          %v = load %V, %k, %0 {modes = "rr", sizes = [32, 64]} : bf16[32, 64]
          %x = dot %pb, %v, %a : f32[64, 64]
          %one = constant {value = 1} : i32
          %more = add %c, %one : i32
          yield %x, %more
        } do {
          %y = if %even : f32[64, 64] do {
            %rb = broadcast %r2 {axes = [0]} : f32[64, 64]
            %as = mul %a, %rb : f32[64, 64]
            yield %as
          } do {
            yield %a
          }
          yield %y, %c0
        }
        %cf = cast %c1 : f32
        %cb = broadcast %cf {axes = []} : f32[64]
        %r3 = add %before, %cb : f32[64]
        yield %n, %r2, %r3, %c1
      }
      %both = add %row, %old : f32[64]
      %cf2 = cast %count : f32
      %cb2 = broadcast %cf2 {axes = []} : f32[64]
      %three = add %both, %cb2 : f32[64]
      %rowb = broadcast %three {axes = [0]} : f32[64, 64]
      %out = add %acc, %rowb : f32[64, 64]
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      store %O, %out, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)";

OpId LoopOf(const Function& fn) {
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kFor) return id;
  return {};
}

// Cycles at random: every op some time after what it reads of its own iteration. Whether values of
// earlier iterations come in time is PlanLoop's to say.
LoopSchedule RandomSchedule(const Function& fn, OpId loop, std::mt19937& random) {
  LoopSchedule schedule;
  schedule.ii = 1 + static_cast<int64_t>(random() % (random() % 2 ? 60 : 15));
  const int roles = 1 + static_cast<int>(random() % 3);
  const int64_t spread = 1 + static_cast<int64_t>(random() % 30);
  std::map<ValueId, int64_t> ready;
  std::vector<OpId> placed;
  for (OpId id : fn.blocks[fn.ops[loop].regions[0]].ops) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kYield) continue;
    int64_t at = 0;
    for (ValueId v : ReadBy(fn, id))
      if (auto it = ready.find(v); it != ready.end()) at = std::max(at, it->second);
    if (!IsReplicated(fn, op)) {
      at += 1 + static_cast<int64_t>(random() % static_cast<unsigned>(spread));
      schedule.ops[id] = {static_cast<int>(random() % static_cast<unsigned>(roles)), at};
      placed.push_back(id);
    }
    if (op.kind == OpKind::kDot) schedule.in_flight.insert(id);
    for (ValueId r : op.results) ready[r] = at;
  }
  const OpId a = placed[random() % placed.size()], b = placed[random() % placed.size()];
  if (a != b) schedule.tokens.push_back({a, b, static_cast<int64_t>(random() % 3) - 1});
  return schedule;
}

// One role, whose results are used as soon as its order allows.
void MakeClose(LoopSchedule* schedule) {
  for (auto& [id, time] : schedule->ops) time.role = 0;
  schedule->in_place = schedule->close = true;
}

void KeepsEveryValue(const char* text, bool close = false) {
  const Function before = Parsed(text);
  DiagSink diags;
  SourceMap sources;
  std::map<int64_t, TensorValue> expected;
  const auto inputs = [](int64_t l) {
    InterpretInputs in;
    in.tensors["Q"] = TensorValue::Random(DType::kBF16, {70, 64}, 1);
    in.tensors["K"] = TensorValue::Random(DType::kBF16, {l, 64}, 2);
    in.tensors["V"] = TensorValue::Random(DType::kBF16, {l, 64}, 3);
    in.tensors["O"] = TensorValue::Zeros(DType::kF32, {70, 64});
    in.dims = {{"M", 70}, {"L", l}};
    return in;
  };
  const std::vector<int64_t> lengths = {0, 1, 32, 33, 64, 70, 96, 128, 160, 300};
  for (int64_t l : lengths) {
    InterpretInputs in = inputs(l);
    ASSERT_TRUE(Interpret(before, in, {}, diags).ok());
    expected[l] = in.tensors["O"];
  }
  std::map<int, int> by_stages;
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    Function after = before;
    const OpId loop = LoopOf(after);
    LoopSchedule schedule = RandomSchedule(after, loop, random);
    if (close) MakeClose(&schedule);
    std::string why;
    const std::optional<LoopPlan> plan = PlanLoop(after, loop, schedule, &why);
    if (!plan) continue;
    int64_t tokens = 0;
    ASSERT_TRUE(PipelineLoop(after, loop, *plan, &tokens)) << "seed " << seed;
    ASSERT_TRUE(Verify(after, diags).ok()) << "seed " << seed << "\n"
                                           << RenderAll(diags, sources) << Print(after);
    ++by_stages[plan->stages];
    for (int64_t l : {lengths[seed % lengths.size()]}) {
      InterpretInputs in = inputs(l);
      ASSERT_TRUE(Interpret(after, in, {}, diags).ok()) << "seed " << seed;
      ASSERT_EQ(in.tensors["O"].v, expected[l].v)
          << "seed " << seed << ", L = " << l << ", " << plan->stages << " stages\n"
          << Print(after);
    }
  }
  if (close) {  // one iteration is worked on beside another
    EXPECT_GE(by_stages[1], 50);
    return;
  }
  // All depths of pipelines occur, so the test tests them.
  for (int stages : {0, 1, 2, 3}) EXPECT_GE(by_stages[stages], 5) << stages << " stages";
}

TEST(PipelineLoop, KeepsEveryValueForRandomSchedulesAndTripCounts) { KeepsEveryValue(kLoop); }

TEST(PipelineLoop, TakesBranchesAsOps) { KeepsEveryValue(kBranches); }

// Fewer iterations are under way at a time, and none more.
TEST(PipelineLoop, UsesResultsAsSoonAsItsOrderAllows) {
  KeepsEveryValue(kLoop, true);
  const Function fn = Parsed(kLoop);
  const OpId loop = LoopOf(fn);
  int fewer = 0, plans = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    LoopSchedule schedule = RandomSchedule(fn, loop, random);
    MakeClose(&schedule);
    std::string why;
    const std::optional<LoopPlan> close = PlanLoop(fn, loop, schedule, &why);
    schedule.close = false;
    const std::optional<LoopPlan> solved = PlanLoop(fn, loop, schedule, &why);
    if (!solved) continue;
    ASSERT_TRUE(close) << "seed " << seed << ": " << why;
    ++plans;
    std::map<OpId, int> stages;
    for (const PlannedOp& op : solved->order) stages[op.op] = op.stage;
    bool earlier = false;
    for (const PlannedOp& op : close->order) {
      EXPECT_LE(op.stage, stages.at(op.op)) << "seed " << seed;
      earlier = earlier || op.stage < stages.at(op.op);
    }
    fewer += earlier;
  }
  EXPECT_GT(plans, 100);
  EXPECT_GT(fewer, 10);
}

// A product's operand of which threads take the sum of squares, too.
constexpr const char* kSquares = R"(func @squares tile {
  param tensor %Q: tensor<bf16, 2> in [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %K: tensor<bf16, 2> in [64, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [64]} do (%m: i64) {
      %z = constant {value = 0} : f32[64, 64]
      %r0 = constant {value = 0} : f32[64]
      %acc, %row = for %0, %L, %z, %r0 {step = 32} : f32[64, 64], f32[64]
          do (%k: i64, %a: f32[64, 64], %r: f32[64]) {
        %q = load %Q, %m, %k {modes = "rr", sizes = [64, 32]} : bf16[64, 32]
        %kt = load %K, %0, %k {modes = "rr", sizes = [64, 32]} : bf16[64, 32]
        %kx = transpose %kt {perm = [1, 0]} : bf16[32, 64]
        %n = dot %q, %kx, %a : f32[64, 64]
        %f = cast %q : f32[64, 32]
        %ff = mul %f, %f : f32[64, 32]
        %sum = reduce %ff {kind = "sum", axis = 1} : f32[64]
        %r1 = add %r, %sum : f32[64]
        yield %n, %r1
      }
      %rc = reshape %row : f32[64, 1]
      %rb = broadcast %rc {axes = [0, 1]} : f32[64, 64]
      %out = add %acc, %rb : f32[64, 64]
      %w = constant {value = 64} : i64
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      store %O, %out, %m, %end, %0, %w {modes = "rr", sizes = [64, 64]}
      yield
    }
  }
}
)";

// What would be loaded once for the product and once more an iteration later, for the sum, is read
// by both in one iteration: the sum's ops move as a whole, and the plan says so.
TEST(PipelineLoop, ReadsALoadInOneTurn) {
  const Function fn = Parsed(kSquares);
  const OpId loop = LoopOf(fn);
  LoopSchedule schedule;
  schedule.ii = 100;
  for (OpId id : fn.blocks[fn.ops[loop].regions[0]].ops) {
    const OpKind kind = fn.ops[id].kind;
    if (kind == OpKind::kDot) schedule.ops[id] = {0, 10}, schedule.in_flight.insert(id);
    if (kind == OpKind::kCast || kind == OpKind::kMul || kind == OpKind::kReduce ||
        kind == OpKind::kAdd)
      schedule.ops[id] = {0, 115};
  }
  ASSERT_EQ(schedule.ops.size(), 5u);
  const auto stages = [&](std::vector<std::string>* departures) {
    std::string why;
    const std::optional<LoopPlan> plan = PlanLoop(fn, loop, schedule, &why);
    if (!plan) return -1;
    *departures = plan->departures;
    return plan->stages;
  };
  std::vector<std::string> departures;
  EXPECT_EQ(stages(&departures), 0);
  ASSERT_EQ(departures.size(), 1u);
  EXPECT_EQ(departures[0], "`reduce` runs in the turn that brings what it reads");
  // Where nothing is in flight, no ring brings what is loaded: the schedule stands.
  schedule.in_flight.clear();
  EXPECT_EQ(stages(&departures), 1);
}

// A turn is the cyclic order of its role's slots, also where several ops share one: none of them is
// done early because nothing holds it.
TEST(PipelineLoop, TurnsAreInTheOrderOfTheirSlots) {
  const Function fn = Parsed(kLoop);
  const OpId loop = LoopOf(fn);
  int turns = 0, shared = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    LoopSchedule schedule = RandomSchedule(fn, loop, random);
    schedule.tokens.clear();
    // The parts of one op: r1 to r4, where the last of them was.
    std::set<OpId> parts;
    int64_t last = 0;
    for (auto& [id, time] : schedule.ops) {
      const OpKind kind = fn.ops[id].kind;
      const bool row = fn.type(fn.ops[id].results[0]).shape == std::vector<int64_t>{64};
      if (row && (kind == OpKind::kMul || kind == OpKind::kAdd)) parts.insert(id);
      if (row && kind == OpKind::kReduce) last = std::max(last, time.cycle + 1);
    }
    ASSERT_EQ(parts.size(), 4u);
    for (OpId id : parts) last = std::max(last, schedule.ops.at(id).cycle);
    for (OpId id : parts) schedule.ops.at(id) = {0, last};
    std::string why;
    const std::optional<LoopPlan> plan = PlanLoop(fn, loop, schedule, &why);
    // The two rules by which the plan departs from the schedule are others' to test.
    if (!plan || !plan->notes.empty() || !plan->departures.empty()) continue;
    std::map<int, std::vector<int64_t>> slots;
    for (const PlannedOp& op : plan->order) {
      const auto time = schedule.ops.find(op.op);
      if (time == schedule.ops.end() || fn.ops[op.op].kind == OpKind::kDot) continue;
      const int64_t slot = time->second.cycle % schedule.ii;
      slots[op.role].push_back(slot);
      shared += parts.count(op.op) > 0;
    }
    for (const auto& [role, in_turn] : slots) {
      int begins = 0;  // of a turn of the schedule, seen from where the plan's turn begins
      for (size_t i = 0; i < in_turn.size(); ++i)
        begins += in_turn[i] > in_turn[(i + 1) % in_turn.size()];
      EXPECT_LE(begins, 1) << "seed " << seed << ", role " << role;
      ++turns;
    }
  }
  EXPECT_GT(turns, 100);
  EXPECT_GT(shared, 400);
}

// What a turn awaits of another role is signalled exactly once, whatever turns there are. A loop
// that has none is left out with its tokens: in a loop around it, a role that only signals would
// be held back by nothing.
TEST(PipelineLoop, TokensBalanceForEveryTripCount) {
  const Function before = Parsed(kLoop);
  int pairs = 0, guarded = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    Function after = before;
    const OpId loop = LoopOf(after);
    std::string why;
    const std::optional<LoopPlan> plan =
        PlanLoop(after, loop, RandomSchedule(after, loop, random), &why);
    int64_t tokens = 0;
    if (!plan || plan->tokens.empty() || !PipelineLoop(after, loop, *plan, &tokens)) continue;
    // Marks by where they stand: the straight-line part of the pipelined arm, and its steady loop.
    std::map<std::string, int> outside, inside;
    for (OpId id : OpsInOrder(after)) {
      const Op& op = after.ops[id];
      const OpId parent = after.blocks[op.block].parent;
      const bool in_loop = parent.valid() && after.ops[parent].kind == OpKind::kFor;
      for (const char* mark : {"signal", "await"})
        if (op.attr(mark)) ++(in_loop ? inside : outside)[mark];
      if (op.kind != OpKind::kFor || (!op.attr("signal") && !op.attr("await"))) continue;
      ASSERT_TRUE(parent.valid());
      EXPECT_EQ(after.ops[parent].kind, OpKind::kIf) << "seed " << seed;
      guarded += plan->stages == 0;
    }
    EXPECT_EQ(inside["signal"], inside["await"]) << "seed " << seed;
    EXPECT_EQ(outside["signal"], outside["await"]) << "seed " << seed << Print(after);
    ++pairs;
  }
  EXPECT_GT(pairs, 50);
  EXPECT_GT(guarded, 5);
}

}  // namespace
}  // namespace tilec::ir
