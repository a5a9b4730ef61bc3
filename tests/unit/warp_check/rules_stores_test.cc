// The rules of what leaves shared memory, one at a time: copies out, staging buffers, parts of a
// role that store for themselves. A program that keeps each and its twin that does not.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/warp_check/programs.h"

namespace tilec::ir {

namespace {

const char* kStaged =
    R"(%s = smem_alloc {offset = 0} :
        smem<bf16[64, 64], rows=64, cols=64, panel=64, swizzle=128, depth=1>
    role {name = "main", first_warp = 0, warps = 4, regs = 0} do {
      %x = constant {value = 0} : bf16[64, 64]#0
      for %zero, %K {step = 64} do (%k: i64) {
        cta_sync {id = 0}
        smem_store %x, %s
        fence_async
        cta_sync {id = 1}
        elect do {
          tma_store %s, %k, %zero {map = 2, offset = 0}
          tma_commit
          tma_wait {pending = 0, read = 1}
          yield
        }
        yield
      }
      yield
    }
)";

TEST(WarpRules, CopiesOut) {
  const std::string good = Kernel(4, kStaged);
  std::string text;
  EXPECT_EQ(Verdict(good, &text), "") << text;
  EXPECT_EQ(Verdict(Without(good, "cta_sync {id = 0}\n")), "WarpOverwrite");
  EXPECT_EQ(Verdict(Without(good, "cta_sync {id = 1}\n")), "WarpUnfilled");
  EXPECT_EQ(Verdict(Without(good, "fence_async\n")), "WarpFence");
  // With one turn these are found at the end, with two at the next store.
  EXPECT_EQ(Verdict(Without(good, "tma_commit\n")), "WarpOpenEnd");
  EXPECT_EQ(Verdict(Without(good, "tma_wait {pending = 0, read = 1}\n")), "WarpOpenEnd");
  EXPECT_EQ(Verdict(With(good, "pending = 0", "pending = 1")), "WarpOpenEnd");
  // The fence must come before the barrier, in the threads that wrote.
  EXPECT_EQ(
      Verdict(With(Without(good, "fence_async\n"), "elect do {", "elect do {\nfence_async\n")),
      "WarpFence");
  // Once, without a loop: the role may not end before the copy.
  const std::string once =
      Without(With(good, "for %zero, %K", "for %zero, %c64"), "tma_wait {pending = 0, read = 1}\n");
  EXPECT_EQ(Verdict(once), "WarpOpenEnd");
}

TEST(WarpRules, CopiesThatCombine) {
  const std::string plain = Kernel(4, kStaged);
  const std::string good =
      With(plain, "{map = 2, offset = 0}", "{map = 2, offset = 0, kind = \"add\"}");
  // Shared memory is read like any other copy's.
  EXPECT_EQ(Verdict(good), "");
  EXPECT_EQ(Verdict(Without(good, "fence_async\n")), "WarpFence");
  EXPECT_EQ(Verdict(Without(good, "tma_wait {pending = 0, read = 1}\n")), "WarpOpenEnd");
  // The tensor is nobody else's: a second kind, a plain copy, threads.
  const std::string copy = "tma_store %s, %k, %zero {map = 2, offset = 0, kind = \"add\"}\n";
  EXPECT_EQ(Verdict(With(good, copy, copy + copy)), "");
  EXPECT_EQ(Verdict(With(good, copy, copy + With(copy, "\"add\"", "\"max\""))), "WarpForm");
  EXPECT_EQ(Verdict(With(good, copy, With(copy, ", kind = \"add\"", "") + copy)), "WarpForm");
  const std::string scalar = "%o = gload_scalar %O, %zero, %zero : bf16\n";
  std::string text;
  EXPECT_EQ(Verdict(With(good, "cta_sync {id = 0}\n", scalar + "cta_sync {id = 0}\n"), &text),
            "WarpForm");
  EXPECT_NE(text.find("nothing orders this `gload_scalar`"), std::string::npos) << text;
  EXPECT_EQ(Verdict(With(plain, "cta_sync {id = 0}\n", scalar + "cta_sync {id = 0}\n")), "");
}

TEST(WarpRules, TwoStagingBuffersAndADeferredWait) {
  // The wait for the copy before comes under this one's work: one group stays pending.
  const std::string good = Kernel(4, R"(
    %s = smem_alloc {offset = 0} :
        smem<bf16[64, 64], rows=64, cols=64, panel=64, swizzle=128, depth=2>
    role {name = "main", first_warp = 0, warps = 4, regs = 0} do {
      %x = constant {value = 0} : bf16[64, 64]#0
      %a = smem_alloc {offset = 16384} :
        smem<bf16[64, 64], rows=64, cols=64, panel=64, swizzle=128, depth=1>
      %b = smem_alloc {offset = 24576} :
        smem<bf16[64, 64], rows=64, cols=64, panel=64, swizzle=128, depth=1>
      for %zero, %K {step = 128} do (%k: i64) {
        elect do {
          tma_wait {pending = 1, read = 1}
          yield
        }
        cta_sync {id = 0}
        smem_store %x, %a
        fence_async
        cta_sync {id = 0}
        elect do {
          tma_store %a, %k, %zero {map = 2, offset = 0}
          tma_commit
          tma_wait {pending = 1, read = 1}
          yield
        }
        cta_sync {id = 0}
        smem_store %x, %b
        fence_async
        cta_sync {id = 0}
        elect do {
          tma_store %b, %k, %zero {map = 2, offset = 0}
          tma_commit
          yield
        }
        yield
      }
      elect do {
        tma_wait {pending = 0, read = 1}
        yield
      }
      yield
    }
)");
  std::string text;
  EXPECT_EQ(Verdict(good, &text), "") << text;
  EXPECT_EQ(Verdict(With(good, "pending = 1", "pending = 2")), "WarpOverwrite");
  EXPECT_EQ(Verdict(With(good, "pending = 0", "pending = 1")), "WarpOpenEnd");
}

// Two warpgroups, each with 64 of 128 rows of two buffers by turns; one copy stays under way.
std::string Parts() {
  std::string body = R"(%a = smem_alloc {offset = 0} :
        smem<bf16[128, 64], rows=128, cols=64, panel=64, swizzle=128, depth=1>
    %b = smem_alloc {offset = 16384} :
        smem<bf16[128, 64], rows=128, cols=64, panel=64, swizzle=128, depth=1>
    role {name = "main", first_warp = 0, warps = 8, regs = 0} do {
      %x = constant {value = 0} : bf16[128, 64]#1
      for %zero, %K {step = 128} do (%k: i64) {
)";
  for (const char* buffer : {"a", "b"})
    body += fmt::format(R"(        elect {{parts = 2}} do {{
          tma_wait {{pending = 1, read = 1}}
          yield
        }}
        cta_sync {{id = 1, parts = 2}}
        smem_store %x, %{0}
        fence_async
        cta_sync {{id = 1, parts = 2}}
        elect {{parts = 2}} do {{
          tma_store %{0}, %k, %zero {{map = 2, offset = 0, each = [1, 64, 8192]}}
          tma_commit
          yield
        }}
)",
                        buffer);
  body += R"(        yield
      }
      elect {parts = 2} do {
        tma_wait {pending = 0, read = 1}
        yield
      }
      yield
    }
)";
  return With(Kernel(8, body), "  param tensor %A",
              "  layout #1 = rank 2 t(4:1*2 8:0*1 8:0*16) r(2:1*1 2:0*8 8:1*8)\n  param tensor %A");
}

TEST(WarpRules, PartsOfARoleStoreForThemselves) {
  const std::string good = Parts();
  std::string text;
  EXPECT_EQ(Verdict(good, &text), "") << text;
  // What is needed of a role is needed of each part.
  const std::string sync = "cta_sync {id = 1, parts = 2}\n";
  EXPECT_EQ(Verdict(Without(good, sync)), "WarpOverwrite");
  EXPECT_EQ(Verdict(With(good, "fence_async\n        " + sync, "fence_async\n")), "WarpUnfilled");
  EXPECT_EQ(Verdict(Without(good, "fence_async\n")), "WarpFence");
  EXPECT_EQ(Verdict(With(good, "pending = 1", "pending = 2")), "WarpOverwrite");
  EXPECT_EQ(Verdict(With(good, "pending = 0", "pending = 1")), "WarpOpenEnd");
}

TEST(WarpRules, PartsKeepToTheirOwnRows) {
  const std::string good = Parts();
  std::string text;
  // Rows of the two warpgroups alternate: what one writes the other copies.
  EXPECT_EQ(Verdict(With(good, "8:0*16) r(2:1*1 2:0*8 8:1*8)\n  param",
                         "4:0*32 2:0*16) r(2:1*1 2:0*8 8:1*8)\n  param"),
                    &text),
            "WarpForm");
  EXPECT_NE(text.find("does not keep to them"), std::string::npos) << text;
  // Somebody reads all rows, after a barrier of parts only.
  EXPECT_EQ(Verdict(With(good, "        elect {parts = 2} do {\n          tma_store",
                         "        %y = smem_load %a : bf16[128, 64]#1\n"
                         "        elect {parts = 2} do {\n          tma_store")),
            "WarpForm");
  // The buffers lie over each other; one thread of the role copies as well.
  EXPECT_EQ(Verdict(With(good, "offset = 16384", "offset = 8192")), "WarpForm");
  EXPECT_EQ(Verdict(With(good, "each = [1, 64, 8192]", "each = [1, 32, 8192]")), "WarpForm");
  const std::string alone =
      "elect do {\n        tma_store %b, %zero, %zero {map = 2, offset = 0}\n"
      "        tma_commit\n        yield\n      }\n      elect {parts = 2} do "
      "{\n        tma_wait {pending = 0";
  EXPECT_EQ(Verdict(With(good, "elect {parts = 2} do {\n        tma_wait {pending = 0", alone)),
            "WarpForm");
}

TEST(WarpRules, ABarrierOfPartsOrdersNothingElse) {
  // All threads read what all wrote: the parts' barrier does not help.
  auto kernel = [](const char* sync) {
    return With(Kernel(8, fmt::format(R"(%a = smem_alloc {{offset = 0}} :
        smem<bf16[128, 64], rows=128, cols=64, panel=64, swizzle=128, depth=1>
    role {{name = "main", first_warp = 0, warps = 8, regs = 0}} do {{
      %x = constant {{value = 0}} : bf16[128, 64]#1
      smem_store %x, %a
      {}
      %y = smem_load %a : bf16[128, 64]#1
      yield
    }}
)",
                                      sync)),
                "  param tensor %A",
                "  layout #1 = rank 2 t(4:1*2 8:0*1 8:0*16) r(2:1*1 2:0*8 8:1*8)\n"
                "  param tensor %A");
  };
  EXPECT_EQ(Verdict(kernel("cta_sync {id = 1}")), "");
  EXPECT_EQ(Verdict(kernel("cta_sync {id = 1, parts = 2}")), "WarpUnfilled");
  // Barriers from `id` on, one for each part.
  EXPECT_EQ(Verdict(kernel("cta_sync {id = 1}\n      cta_sync {id = 2, parts = 2}")), "");
  EXPECT_EQ(Verdict(kernel("cta_sync {id = 2}\n      cta_sync {id = 1, parts = 2}")),
            "WarpResource");
}

}  // namespace

}  // namespace tilec::ir
