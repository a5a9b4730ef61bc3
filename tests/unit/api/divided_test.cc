// Chains of a row slice that share nothing but loads: a schedule may give each a role of its own,
// and the program then has those roles. (Once all of a slice was made one role, whatever the
// schedule said: a role that awaited its own order tokens never ended.) Where there is no room for
// them, the slice is solved as one role.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ir/text.h"
#include "scheduler/check.h"
#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

// Both chains make their operand of bytes: one role would issue for longer than the copies take.
constexpr const char* kGate = R"(
kernel gate(A: bf16[M, K], B: i8[N, K], U: i8[N, K], C: out f32[M, N]) {
  tune S = 64 in {48, 64}
  parallel m in tiles(M, S), n in tiles(N, S) {
    var g: f32[S, S] = 0
    var u: f32[S, S] = 0
    for k in tiles(K, S) {
      let a = A[m, k]
      g += a @ (B[n, k] as bf16).T
      u += a @ (U[n, k] as bf16).T
    }
    C[m, n] = g * u
  }
}
)";

class DividedTest : public LoweringTest {
 protected:
  DividedTest() : LoweringTest("gate") {}
  virtual std::string Text() const { return kGate; }
  void SetUp() override {
    LoadText(loaded_, Text());
    call_ = AlignedCall();
    call_.facts["U"] = call_.facts.at("B");
  }
  static std::vector<const ir::Op*> ComputeRoles(const ir::Function& warps) {
    std::vector<const ir::Op*> roles;
    for (ir::OpId id : warps.blocks[warps.body].ops)
      if (const ir::Op& op = warps.ops[id]; op.kind == ir::OpKind::kRole && op.i("warps") > 1)
        roles.push_back(&op);
    return roles;
  }
  // Roles of the products in the tile program.
  static std::set<int64_t> RolesOfProducts(const ir::Function& fn) {
    std::set<int64_t> roles;
    for (ir::OpId id : ir::OpsInOrder(fn))
      if (fn.ops[id].kind == ir::OpKind::kDot && fn.ops[id].attr("role"))
        roles.insert(fn.ops[id].i("role"));
    return roles;
  }
  // Roles with a product, as scheduled.
  static std::set<int> ScheduledRoles(const scheduler::LoopReport& loop) {
    std::set<int> roles;
    for (const ir::ScheduledOp& op : loop.solution.schedule.ops)
      if (op.name == "g" || op.name == "u") roles.insert(op.role);
    return roles;
  }
};

TEST_F(DividedTest, EachChainHasItsRole) {
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  EXPECT_EQ(Said("R587"), 0) << RenderAll(diags_, loaded_.sources);
  EXPECT_TRUE(lowered.by_schedule);
  EXPECT_TRUE(lowered.schedule.apart);
  ASSERT_EQ(lowered.schedule.loops.size(), 1u);
  EXPECT_EQ(ScheduledRoles(lowered.schedule.loops[0]).size(), 2u);
  EXPECT_EQ(ComputeRoles(warps).size(), 2u);
}

// The two products of a turn take turns, or not, but a tile or a token that a role makes is never
// awaited by that role.
TEST_F(DividedTest, NoRoleAwaitsItself) {
  ir::Function made;
  const scheduler::ProgramSchedule schedule = Solved(true, &made);
  EXPECT_TRUE(schedule.apart);
  EXPECT_EQ(RolesOfProducts(made).size(), 2u);
  std::map<int64_t, int64_t> makers, takers;
  for (ir::OpId id : ir::OpsInOrder(made)) {
    const ir::Op& op = made.ops[id];
    if (op.kind == ir::OpKind::kFor) continue;  // carries the tokens of ops in it
    if (op.attr("signal"))
      for (int64_t token : op.ints("signal")) makers[token] = op.i("role");
    if (op.attr("await"))
      for (int64_t token : op.ints("await")) takers[token] = op.i("role");
  }
  EXPECT_FALSE(makers.empty());
  for (const auto& [token, role] : takers) EXPECT_NE(makers.at(token), role) << token;
}

TEST_F(DividedTest, AFileSaysTheSame) {
  api::Lowered lowered;
  const ir::Function solved = Lowered(&lowered);
  loaded_.schedule_file = loaded_.sources.Add("gate.sched", scheduler::ToText(lowered.schedule));
  api::Lowered again;
  const ir::Function read = Lowered(&again);
  EXPECT_TRUE(again.schedule.apart);
  EXPECT_EQ(ir::Print(read), ir::Print(solved));
}

// Asked not to, the solver keeps the slice in one role: the better schedule of that kind, which
// takes as long as the role issues.
TEST_F(DividedTest, ASliceCanBeKeptWhole) {
  ir::Function made;
  const scheduler::ProgramSchedule divided = Solved(true, &made);
  const scheduler::ProgramSchedule whole = Solved(false, &made);
  EXPECT_FALSE(whole.apart);
  EXPECT_EQ(RolesOfProducts(made).size(), 1u);
  ASSERT_EQ(whole.loops.size(), 1u);
  ASSERT_TRUE(whole.loops[0].applied);
  EXPECT_EQ(ScheduledRoles(whole.loops[0]).size(), 1u);
  EXPECT_GT(whole.loops[0].solution.schedule.ii, divided.loops[0].solution.schedule.ii);
  // The graph is the one that was asked about: files of both fit it.
  EXPECT_EQ(scheduler::Hash(whole.loops[0].extraction.graph),
            scheduler::Hash(divided.loops[0].extraction.graph));
  EXPECT_TRUE(scheduler::Check(whole.loops[0].extraction.graph, whole.loops[0].solution.schedule)
                  .violations.empty());
}

// Rows that copies cannot bring threads of a load role bring, and leave room for two roles.
TEST_F(DividedTest, RowsThatThreadsBringLeaveRoomForTwoRoles) {
  call_.statics["S"] = int64_t{48};
  for (auto& [name, facts] : call_.facts) {
    facts.stride_align_bytes = 2;
    facts.last_dim_align = 1;
  }
  ir::Function made;
  EXPECT_TRUE(Solved(true, &made).apart);
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  EXPECT_EQ(Said("R587"), 0) << RenderAll(diags_, loaded_.sources);
  EXPECT_TRUE(lowered.by_schedule);
  EXPECT_TRUE(lowered.schedule.apart);
  ASSERT_EQ(lowered.schedule.loops.size(), 1u);
  EXPECT_TRUE(lowered.schedule.loops[0].applied);
  EXPECT_EQ(ScheduledRoles(lowered.schedule.loops[0]).size(), 2u);
}

// The same kernel, with one tile of columns, writes what it multiplies.
class DividedInPlaceTest : public DividedTest {
 protected:
  std::string Text() const override {
    std::string text = kGate;
    const auto replace = [&](const std::string& from, const std::string& to) {
      for (size_t at; (at = text.find(from)) != std::string::npos;)
        text.replace(at, from.size(), to);
    };
    replace("A: bf16", "A: inout bf16");
    replace(", n in tiles(N, S)", "");
    replace("[n, k]", "[0..S, k]");
    replace("C[m, n] = g * u\n", "C[m, 0..S] = g * u\n    A[m, 0..S] = g as bf16\n");
    return text;
  }
};

// Rows at odd places of a tensor that the kernel writes nobody brings ahead: without a load role
// there is no room for more than one.
TEST_F(DividedInPlaceTest, WithoutRoomForTwoRolesTheSliceIsWhole) {
  call_.statics["S"] = int64_t{48};
  for (auto& [name, facts] : call_.facts) {
    facts.stride_align_bytes = 2;
    facts.last_dim_align = 1;
  }
  ir::Function made;
  EXPECT_TRUE(Solved(true, &made).apart);
  api::Lowered lowered;
  const ir::Function warps = Lowered(&lowered);
  EXPECT_EQ(Said("R587"), 0) << RenderAll(diags_, loaded_.sources);
  EXPECT_TRUE(lowered.by_schedule);
  EXPECT_FALSE(lowered.schedule.apart);
  ASSERT_EQ(lowered.schedule.loops.size(), 1u);
  EXPECT_TRUE(lowered.schedule.loops[0].applied);
  EXPECT_EQ(ScheduledRoles(lowered.schedule.loops[0]).size(), 1u);
}

}  // namespace
}  // namespace tilec
