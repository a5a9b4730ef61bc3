// Tensor memory: the verifier and executions with numbers say the same of who may touch columns
// when. The verifier alone says whether they are read as they were written.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/warp_check/programs.h"
#include "tests/warp_check/executions.h"

namespace tilec::ir {
namespace {

// A product each turn, loaded before the next.
std::string Turns() {
  return Kernel(4, fmt::format(R"(
    %a = smem_alloc {{offset = 0}} : smem<{0}, depth=1>
    %b = smem_alloc {{offset = 8192}} : smem<{0}, depth=1>
    %done = mbar_alloc {{offset = 16384}} : mbar<1>
    elect do {{
      mbar_init %done {{count = 1}}
      fence_mbar_init
      yield
    }}
    cta_sync {{id = 0}}
    %t = tmem_alloc {{columns = 128, offset = 16392}} : i32
    role {{name = "main", first_warp = 0, warps = 4, regs = 0}} do {{
      %n = counter {{init = 0}} : counter
      %none = constant {{value = 0}} : bool
      %x = constant {{value = 0}} : bf16[64, 64]#0
      smem_store %x, %a
      smem_store %x, %b
      fence_async
      cta_sync {{id = 0}}
      for %zero, %K {{step = 64}} do (%k: i64) {{
        elect do {{
          tc_mma %t, %a, %b, %i0, %i0, %none {{m = 64, n = 64, k = 64, k_begin = 0, trans_a = 0,
              trans_b = 0, column = 0, a_column = -1, unit = "tcgen05"}}
          tc_commit %done
          yield
        }}
        %c = counter_read %n : i32
        %p = and %c, %i1 : i32
        mbar_wait %done, %p
        counter_add %n {{by = 1}}
        tc_fence {{after = 1}}
        %y = tmem_load %t {{column = 0, n = 64, first = 0, split = "m", unit = "tcgen05"}}
            : f32[64, 64]#0
        tc_fence {{after = 0}}
        cta_sync {{id = 0}}
        tc_fence {{after = 1}}
        yield
      }}
      yield
    }}
    tmem_free %t {{columns = 128}})",
                               kTile));
}

std::string Fault(const std::string& program) {
  DiagSink diags;
  SourceMap sources;
  const Result<Function> fn = ParseFunction(program, diags);
  if (!fn.ok()) {
    ADD_FAILURE() << RenderAll(diags, sources) << program;
    return "";
  }
  for (OpId id : OpsInOrder(*fn)) {
    if (fn->ops[id].kind != OpKind::kFor) continue;
    const Executions seen = Execute(*fn, fn->ops[id].regions[0]);
    EXPECT_GE(seen.runs, 1);
    return seen.fault;
  }
  return "";
}

void BothRefuse(const std::string& program, const char* verdict, const std::string& fault) {
  EXPECT_EQ(Verdict(program), verdict);
  EXPECT_NE(Fault(program).find(fault), std::string::npos) << Fault(program);
}

TEST(Columns, OrderIsNeeded) {
  const std::string good = Turns();
  EXPECT_EQ(Verdict(good), "");
  EXPECT_EQ(Fault(good), "");
  const std::string after = "tc_fence {after = 1}", unordered = "is not ordered after";
  BothRefuse(With(good, after + "\n        %y", "%y"), "WarpUnfilled", unordered);
  BothRefuse(Without(good, "tc_fence {after = 0}\n"), "WarpOverwrite", unordered);
  BothRefuse(With(good, after + "\n        yield", "yield"), "WarpOverwrite", unordered);
  BothRefuse(With(good, "tc_fence {after = 0}\n        cta_sync {id = 0}", "tc_fence {after = 0}"),
             "WarpOverwrite", unordered);
  BothRefuse(Without(good, "tc_commit %done\n"), "WarpDeadlock", "nothing ends");
  BothRefuse(Without(good, "mbar_wait %done, %p\n"), "WarpUnfilled", unordered);
}

// What the thread that issues waits for says nothing to others, and an end that nobody awaits is
// none.
TEST(Columns, WhoWaits) {
  const std::string good = Turns();
  BothRefuse(With(good, "mbar_wait %done, %p\n", "elect do {\nmbar_wait %done, %p\nyield\n}\n"),
             "WarpUnfilled", "is not ordered after");
}

TEST(Columns, AreReadAsTheyWereWritten) {
  const std::string good = Turns();
  std::string said;
  EXPECT_EQ(Verdict(With(good, "tmem_load %t {column = 0", "tmem_load %t {column = 16"), &said),
            "WarpUnfilled");
  EXPECT_EQ(Verdict(With(good, "column = 0, a_column", "column = 16, a_column"), &said),
            "WarpUnfilled");
  // All of what is read was written, as another tile.
  const std::string twice = With(good, "tc_commit %done", R"(tc_mma %t, %a, %b, %i0, %i0, %none
              {m = 64, n = 64, k = 64, k_begin = 0, trans_a = 0, trans_b = 0, column = 16,
               a_column = -1, unit = "tcgen05"}
          tc_commit %done)");
  EXPECT_EQ(Verdict(twice, &said), "WarpUnfilled");
  EXPECT_NE(said.find("as columns of another tile than was written there"), std::string::npos)
      << said;
}

}  // namespace
}  // namespace tilec::ir
