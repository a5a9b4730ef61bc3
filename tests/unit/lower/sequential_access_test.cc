// How the sequential lowering meets global memory: how many threads read rows, in which vectors,
// what is turned on the way, and what combines tiles with a tensor.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/lower/buffers.h"
#include "ir/lower/operands.h"
#include "ir/lower/sequential.h"
#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/sequential_kernels.h"

namespace tilec::ir {

namespace {

TEST(Sequential, StoresThatTheCopyEngineWouldSpillAreMadeByThreads) {
  // Stores are clipped to whole 16-byte chunks; without a fact about N the last one may be cut.
  std::string text = Gemm(128, 128, 64, 16);
  for (size_t at; (at = text.find(" last_align=16")) != std::string::npos;) text.erase(at, 14);
  const Function fn = Lowered(text);
  EXPECT_EQ(Count(fn, OpKind::kTmaLoad), 2);
  EXPECT_EQ(Count(fn, OpKind::kTmaStore), 0);
  EXPECT_EQ(Count(fn, OpKind::kGStore), 1);
}

// Y = X ∘ gamma for `rows` rows of bf16, `columns` of them; gamma in `vectors`.
std::string Rows(int rows, int columns, const char* vectors) {
  return fmt::format(R"(func @rows tile {{
  param tensor %X: tensor<bf16, 2> in [R, {1}] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %gamma: tensor<{2}, 1> in [{1}] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %Y: tensor<bf16, 2> out [R, {1}] align=16 stride_align=16 contiguous=1 last_align=8
  param dim %R: i64
  body {{
    %0 = constant {{value = 0}} : i64
    parallel %0, %R {{steps = [{0}]}} do (%r: i64) {{
      %x = load %X, %r, %0 {{modes = "rr", sizes = [{0}, {1}]}} : bf16[{0}, {1}]
      %g = load %gamma, %0 {{modes = "r", sizes = [{1}]}} : {2}[{1}]
      %gc = cast %g : bf16[{1}]
      %gb = broadcast %gc {{axes = [1]}} : bf16[{0}, {1}]
      %y = mul %x, %gb : bf16[{0}, {1}]
      %rows = constant {{value = {0}}} : i64
      %end0 = add %r, %rows : i64
      %end = min %end0, %R : i64
      %columns = constant {{value = {1}}} : i64
      store %Y, %y, %r, %end, %0, %columns {{modes = "rr", sizes = [{0}, {1}]}}
      yield
    }}
  }}
}}
)",
                     rows, columns, vectors);
}

// Rows that a CTA reads once, up to 16 KB, take up to 32 elements a thread, others 16: where they
// are of wider elements, are read in parts that are all kept, or come chunk by chunk.
TEST(Sequential, RowsReadAtOnceTakeFewerThreads) {
  const std::string head = R"(func @rows tile {
  param tensor %X: tensor<bf16, 2> in [R, 65536] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %G: tensor<f32, 1> in [65536] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %Y: tensor<f32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %R: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %h = constant {value = 8192} : i64
    parallel %0, %R {steps = [1]} do (%r: i64) {
)";
  const std::string tail = R"(
      %next = add %r, %1 : i64
      store %Y, %s, %r, %next {modes = "r", sizes = [1]}
      yield
    }
  }
}
)";
  const auto part = [](const std::string& at, const std::string& name) {
    return "%t" + name + " = load %X, %r, " + at +
           R"( {modes = "rr", sizes = [1, 8192]} : bf16[1, 8192]
      %x)" +
           name + " = cast %t" + name + R"( : f32[1, 8192]
      %s)" +
           name + " = reduce %x" + name + R"( {kind = "sum", axis = 1} : f32[1]
)";
  };
  const auto warps = [&](const std::string& body, DType type = DType::kBF16) {
    std::string text = head + body + tail;
    if (type == DType::kF32) {
      text = With(text, "cast %t : f32", "neg %t : f32");
      text = With(text, "bf16", "f32");
    }
    DiagSink diags;
    SourceMap sources;
    const Result<Function> fn = Sequentialize(Parsed(text), H200(), {}, diags);
    EXPECT_TRUE(fn.ok()) << RenderAll(diags, sources);
    return fn.ok() ? fn->launch.warps : 0;
  };
  const std::string once = part("%0", "");
  EXPECT_EQ(warps(once), 8);
  EXPECT_EQ(warps(With(once, "8192", "3584")), 4);
  EXPECT_EQ(warps(With(once, "8192", "4096")), 8);
  EXPECT_EQ(warps(once, DType::kF32), 16);
  EXPECT_EQ(warps(With(once, "8192", "3584"), DType::kF32), 8);
  // What all CTAs read is in the caches.
  EXPECT_EQ(warps("%g = load %G, %0 {modes = \"r\", sizes = [8192]} : f32[8192]\n"
                  "%w = reshape %g : f32[1, 8192]\n" +
                  With(part("%0", ""), "%s = reduce %x",
                       "%p = mul %x, %w : f32[1, 8192]\n %s = reduce %p")),
            8);
  EXPECT_EQ(warps(part("%0", "a") + part("%h", "b") + "%s = add %sa, %sb : f32[1]"), 16);
  EXPECT_EQ(warps(R"(%e = constant {value = 65536} : i64
      %z = constant {value = 0} : f32[1]
      %s = for %0, %e, %z {step = 8192} : f32[1] do (%k: i64, %c: f32[1]) {
)" + part("%k", "c") +
                  R"(%n = add %c, %sc : f32[1]
        yield %n
      })"),
            16);
}

// Elements that a thread has in a row: as many as 16 bytes of the rows' type hold, unless another
// type meets memory as much, of which they would fill more than one access.
TEST(Sequential, VectorsSuitAllTypesThatMeetMemory) {
  const auto width = [](int rows, int columns, const char* vectors) {
    const Function fn = Lowered(Rows(rows, columns, vectors));
    for (const Op& op : fn.ops)
      if (op.kind == OpKind::kGStore) return op.i("vector");
    return int64_t{-1};
  };
  EXPECT_EQ(width(1, 4096, "bf16"), 8);
  EXPECT_EQ(width(1, 4096, "f32"), 4);
  EXPECT_EQ(width(8, 512, "f32"), 8);  // most of what is read are rows
}

// Y = Xᵀ in tiles of rows x columns, cast on the way.
std::string Turned(int rows, int columns, const char* from, const char* to) {
  return fmt::format(R"(func @turned tile {{
  param tensor %X: tensor<{2}, 2> in [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %Y: tensor<{3}, 2> out [N, M] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  body {{
    %0 = constant {{value = 0}} : i64
    parallel %0, %M, %0, %N {{steps = [{0}, {1}]}} do (%m: i64, %n: i64) {{
      %x = load %X, %m, %n {{modes = "rr", sizes = [{0}, {1}]}} : {2}[{0}, {1}]
      %t = transpose %x {{perm = [1, 0]}} : {2}[{1}, {0}]
      {4}
      %rows = constant {{value = {0}}} : i64
      %columns = constant {{value = {1}}} : i64
      %me0 = add %m, %rows : i64
      %me = min %me0, %M : i64
      %ne0 = add %n, %columns : i64
      %ne = min %ne0, %N : i64
      store %Y, %y, %n, %ne, %m, %me {{modes = "rr", sizes = [{1}, {0}]}}
      yield
    }}
  }}
}}
)",
                     rows, columns, from, to,
                     std::string(from) == to
                         ? fmt::format("%y = reshape %t : {}[{}, {}]", to, columns, rows)
                         : fmt::format("%y = cast %t : {}[{}, {}]", to, columns, rows));
}

// How much of the 32-byte sectors of a tensor that its accesses touch they move, if tiles begin at
// sectors: of the worst instruction of any warp.
double SectorsFilled(const Function& fn, const Op& op) {
  const ValueId tile = op.kind == OpKind::kGLoad ? op.results[0] : op.operands[1];
  const Layout& layout = fn.layout(tile);
  const int64_t vector = op.i("vector"), bytes = ByteSize(fn.type(tile).dtype);
  double worst = 1;
  for (const std::vector<int>& group : RunGroups(layout, RunAlong(layout, 1), vector))
    for (int64_t warp = 0; warp < layout.threads(); warp += 32) {
      std::set<std::pair<int64_t, int64_t>> sectors;
      for (int64_t t = warp; t < warp + 32; ++t)
        for (int r : group) {
          const std::vector<int64_t> at = layout.Coord(t, r);
          sectors.insert({at[0], at[1] * bytes / 32});
        }
      worst = std::min(worst, 32.0 * static_cast<double>(vector * bytes) /
                                  (32.0 * static_cast<double>(sectors.size())));
    }
  return worst;
}

// A transpose between memory and memory: vectors and whole sectors on both sides, no trip through
// shared memory. (By elements, in pieces of 8 bytes, it took four times as long as a copy.)
TEST(Sequential, WhatIsTurnedMovesInVectorsOnBothSides) {
  struct Case {
    int rows, columns;
    const char *from, *to;
    int64_t loads, stores, warps;
  };
  for (const Case& c : {Case{128, 64, "bf16", "bf16", 8, 8, 4},
                        {128, 128, "bf16", "bf16", 8, 8, 8},
                        {64, 64, "bf16", "bf16", 4, 8, 4},
                        {64, 64, "f32", "f32", 4, 4, 8},
                        {128, 64, "f32", "bf16", 4, 8, 8},
                        {128, 64, "u8", "u8", 8, 8, 4},
                        {96, 80, "bf16", "bf16", 4, 8, 4},
                        {32, 32, "f32", "f32", 2, 4, 4},
                        {32, 16, "f64", "u8", 1, 4, 4}}) {
    const std::string name = fmt::format("{} x {} {} {}", c.rows, c.columns, c.from, c.to);
    const Function fn = Lowered(Turned(c.rows, c.columns, c.from, c.to));
    EXPECT_EQ(fn.launch.warps, c.warps) << name;
    EXPECT_EQ(fn.launch.smem_bytes, 0) << name;
    EXPECT_EQ(Count(fn, OpKind::kConvert) + Count(fn, OpKind::kTmaStore), 0) << name;
    for (const Op& op : fn.ops) {
      if (op.kind != OpKind::kGLoad && op.kind != OpKind::kGStore) continue;
      const bool load = op.kind == OpKind::kGLoad;
      EXPECT_EQ(op.i("vector"), load ? c.loads : c.stores) << name;
      EXPECT_EQ(SectorsFilled(fn, op), 1) << name << (load ? " load" : " store");
    }
  }
}

// Rows that begin anywhere have no vectors. Neighbours go to neighbouring lanes then, on both
// sides, and the tile through shared memory in between.
TEST(Sequential, UnalignedRowsAreTurnedInSharedMemory) {
  for (const char* dtype : {"bf16", "f32"}) {
    const Function fn = Lowered(
        With(Turned(64, 64, dtype, dtype), "stride_align=16 contiguous=1 last_align=16",
             fmt::format("stride_align={} contiguous=1", dtype == std::string("f32") ? 4 : 2)));
    EXPECT_EQ(Count(fn, OpKind::kConvert), 1);
    for (const Op& op : fn.ops) {
      if (op.kind != OpKind::kGLoad && op.kind != OpKind::kGStore) continue;
      EXPECT_EQ(op.i("vector"), 1);
      EXPECT_EQ(SectorsFilled(fn, op), 1);
    }
  }
}

// Gemm whose instances combine what they make with C.
std::string AtomicGemm(const std::string& kind, const char* dtype = "bf16",
                       const char* acc = "f32") {
  const std::string text = With(Gemm(128, 128, 64, 16, dtype, acc), "out [M, N]", "inout [M, N]");
  return With(With(text, "store %C", "atomic %C"), "{modes = \"rr\", sizes = [128, 128]}\n      y",
              "{kind = \"" + kind + "\", modes = \"rr\", sizes = [128, 128]}\n      y");
}

int Combining(const Function& fn, const std::string& kind) {
  int n = 0;
  for (OpId id : OpsInOrder(fn))
    n += fn.ops[id].kind == OpKind::kTmaStore && fn.ops[id].attr("kind") &&
         fn.ops[id].s("kind") == kind;
  return n;
}

TEST(Sequential, TilesAreCombinedByTheCopyEngine) {
  const Function fn = Lowered(AtomicGemm("add"));
  EXPECT_EQ(Count(fn, OpKind::kGAtomic), 0);
  EXPECT_EQ(Combining(fn, "add"), 4);  // boxes of 32 columns of f32, 128 bytes
  EXPECT_EQ(Count(fn, OpKind::kTmaStore), 4);
  for (const char* kind : {"add", "min", "max", "and", "or", "xor"}) {
    const Function words = Lowered(AtomicGemm(kind, "i8", "i32"));
    EXPECT_EQ(Count(words, OpKind::kGAtomic), 0) << kind;
    EXPECT_EQ(Combining(words, kind), 4) << kind;
  }
}

TEST(Sequential, WhatTheCopyEngineCannotCombineThreadsDo) {
  const auto by_threads = [](const std::string& text, int atomics, const char* what) {
    const Function fn = Lowered(text);
    EXPECT_EQ(Count(fn, OpKind::kGAtomic), atomics) << what;
    EXPECT_EQ(Count(fn, OpKind::kTmaStore), 0) << what;
  };
  by_threads(AtomicGemm("max"), 1, "no order of f32");
  const std::string add = AtomicGemm("add");
  by_threads(With(add, "inout [M, N] align=16 stride_align=16 contiguous=1 last_align=16",
                  "inout [M, N] align=16 stride_align=16 contiguous=1"),
             1, "the last column need not end on 16 bytes");
  by_threads(With(add, "%ne = min %ne0, %N : i64", "%ne = add %ne0, %0 : i64"), 1,
             "clipped elsewhere than at the tensor");
  // Nothing would order the copies after the threads, nor one kind after another.
  const std::string atomic = add.substr(
      add.find("      atomic %C"), add.find("      yield\n    }\n") - add.find("      atomic"));
  const std::string load =
      "      %l = load %C, %m, %n {modes = \"rr\", sizes = [128, 128]} : f32[128, 128]\n";
  by_threads(With(With(add, atomic, load + atomic), "%C, %r,", "%C, %l,"), 1, "it is read, too");
  const std::string words = AtomicGemm("add", "i8", "i32");
  const std::string one =
      words.substr(words.find("      atomic %C"),
                   words.find("      yield\n    }\n") - words.find("      atomic"));
  by_threads(With(words, one, one + With(one, "\"add\"", "\"max\"")), 2, "two kinds");
  const Function twice = Lowered(With(words, one, one + one));
  EXPECT_EQ(Count(twice, OpKind::kGAtomic), 0);
  EXPECT_EQ(Combining(twice, "add"), 8);
}

}  // namespace

}  // namespace tilec::ir
