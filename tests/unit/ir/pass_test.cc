// SPDX-License-Identifier: Apache-2.0
#include "ir/pass.h"

#include "ir/passes/passes.h"
#include "tests/unit/ir/pass_kernel.h"

namespace tilec::ir {

namespace {

// What is stored to R, as the op's mnemonic and operand names.
std::string Stored(const Function& fn) {
  for (OpId id : fn.blocks[fn.body].ops)
    if (fn.ops[id].kind == OpKind::kStore) {
      const Op* def = fn.def(fn.ops[id].operands[1]);
      return def ? PrintOp(fn, fn.values[fn.ops[id].operands[1]].def) : "?";
    }
  return "no store";
}

TEST(Canonicalize, Identities) {
  const char* same[] = {
      "%c = constant {value = 1.0} : f32[8, 8]\n%r = mul %a, %c : f32[8, 8]\n",
      "%c = constant {value = 1.0} : f32[8, 8]\n%r = mul %c, %a : f32[8, 8]\n",
      "%c = constant {value = 1.0} : f32[8, 8]\n%r = div %a, %c : f32[8, 8]\n",
      "%c = constant {value = 0.0} : f32[8, 8]\n%r = sub %a, %c : f32[8, 8]\n",
      "%c = constant {value = -0.0} : f32[8, 8]\n%r = add %a, %c : f32[8, 8]\n",
      "%b = neg %a : f32[8, 8]\n%r = neg %b : f32[8, 8]\n",
      "%r = max %a, %a : f32[8, 8]\n",
      "%c = constant {value = 1} : bool[8, 8]\n%b = neg %a : f32[8, 8]\n%r = select %c, %a, %b : "
      "f32[8, 8]\n",
      "%c = constant {value = 0} : bool[8, 8]\n%b = neg %a : f32[8, 8]\n%r = select %c, %b, %a : "
      "f32[8, 8]\n",
      "%b = cast %a : f64[8, 8]\n%r = cast %b : f32[8, 8]\n",
      "%b = bitcast %a : i32[8, 8]\n%r = bitcast %b : f32[8, 8]\n",
      "%b = reshape %a : f32[8, 1, 8]\n%r = reshape %b : f32[8, 8]\n",
      "%r = broadcast %a {axes = [0, 1]} : f32[8, 8]\n",
      "%c = constant {value = 3} : i64\n%p = cmp %c, %n {pred = \"lt\"} : bool\n"
      "%r = if %p : f32[8, 8] do {\nyield %a\n} do {\n%b = neg %a : f32[8, 8]\nyield %b\n}\n",
      "%r = for %n, %z, %a {step = 1} : f32[8, 8] do (%i: i64, %x: f32[8, 8]) {\n%y = neg %x : "
      "f32[8, 8]\nyield %y\n}\n",
  };
  for (const char* body : same)
    EXPECT_EQ(Stored(After(Kernel(body), {"canonicalize"})).substr(0, 9), "%a = load") << body;
  // Not identities: −0 + 0 is 0, and bf16 is not wide enough.
  const char* kept[] = {
      "%c = constant {value = 0.0} : f32[8, 8]\n%r = add %a, %c : f32[8, 8]\n",
      "%c = constant {value = -0.0} : f32[8, 8]\n%r = sub %a, %c : f32[8, 8]\n",
      "%c = constant {value = 0.0} : f32[8, 8]\n%r = mul %a, %c : f32[8, 8]\n",
      "%b = cast %a : bf16[8, 8]\n%r = cast %b : f32[8, 8]\n",
  };
  for (const char* body : kept)
    EXPECT_EQ(Stored(After(Kernel(body), {"canonicalize"})).substr(0, 2), "%r") << body;
}

TEST(Canonicalize, FoldsConstantsExactly) {
  const Function fn = After(Kernel(R"(
    %c = constant {value = 2.0} : f32[8, 8]
    %d = constant {value = 0.5} : f32[8, 8]
    %e = mul %c, %d : f32[8, 8]
    %g = add %e, %c : f32[8, 8]
    %r = mul %a, %g : f32[8, 8]
)"),
                            {"canonicalize", "dce"});
  EXPECT_EQ(Count(fn, OpKind::kMul), 1);
  EXPECT_NE(Print(fn).find("constant {value = 3.0} : f32[8, 8]"), std::string::npos) << Print(fn);
  // 0.1f · 0.1f is rounded, and an executor may contract it: not folded.
  EXPECT_EQ(
      Count(After(Kernel("%c = constant {value = 0.1} : f32[8, 8]\n%d = mul %c, %c : f32[8, 8]\n"
                         "%r = add %a, %d : f32[8, 8]\n"),
                  {"canonicalize"}),
            OpKind::kMul),
      1);
  // Scalars: 7 / 2 floors, i32 wraps.
  const Function ints =
      After(Kernel("%c = constant {value = -7} : i64\n%d = constant {value = 2} : i64\n"
                   "%q = div %c, %d : i64\nprint %q {text = \"q\"}\n%r = neg %a : f32[8, 8]\n"),
            {"canonicalize"});
  EXPECT_NE(Print(ints).find("%q = constant {value = -4} : i64"), std::string::npos) << Print(ints);
}

TEST(Canonicalize, OneTripLoopIsInlined) {
  const Function fn =
      After(Kernel("%r = for %z, %n, %a {step = 8} : f32[8, 8] do (%i: i64, %x: f32[8, 8]) {\n"
                   "print %i {text = \"i\"}\n%y = neg %x : f32[8, 8]\nyield %y\n}\n"),
            {"canonicalize"});
  EXPECT_EQ(Count(fn, OpKind::kFor), 0);
  EXPECT_EQ(Count(fn, OpKind::kPrint), 1);
  EXPECT_EQ(Stored(fn), "%y = neg %a : f32[8, 8]");
}

TEST(Cse, MergesWhatIsEqualAndVisible) {
  EXPECT_EQ(Count(After(Kernel("%b = neg %a : f32[8, 8]\n%c = neg %a : f32[8, 8]\n%r = add %b, %c "
                               ": f32[8, 8]\n"),
                        {"cse"}),
                  OpKind::kNeg),
            1);
  EXPECT_EQ(Count(After(Kernel("%b = load %A, %z, %z {modes = \"rr\", sizes = [8, 8]} : f32[8, "
                               "8]\n%r = add %a, %b : f32[8, 8]\n"),
                        {"cse"}),
                  OpKind::kLoad),
            1)
      << "A is read-only";
  EXPECT_EQ(Count(After(Kernel("%c = constant {value = 0.0} : f32[8, 8]\n%d = constant {value = "
                               "-0.0} : f32[8, 8]\n"
                               "%b = add %a, %c : f32[8, 8]\n%r = add %b, %d : f32[8, 8]\n"),
                        {"cse"}),
                  OpKind::kConstant),
            4)
      << "0 and -0 differ";
  // The two arms of an if see the value above them, not each other's.
  const Function fn = After(Kernel(R"(
    %p = cmp %s, %z {pred = "gt"} : bool
    %r = if %p : f32[8, 8] do {
      %b = neg %a : f32[8, 8]
      yield %b
    } do {
      %b2 = neg %a : f32[8, 8]
      %c2 = neg %a : f32[8, 8]
      %d2 = mul %b2, %c2 : f32[8, 8]
      yield %d2
    }
)"),
                            {"cse"});
  EXPECT_EQ(Count(fn, OpKind::kNeg), 2);
}

TEST(Cse, KeepsReadsOfWrittenTensors) {
  const Function fn = After(R"(func @f tile {
  param tensor %R: tensor<f32, 1> inout [8] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %n = constant {value = 8} : i64
    %a = load %R, %z {modes = "r", sizes = [8]} : f32[8]
    store %R, %a, %z, %n {modes = "r", sizes = [8]}
    %b = load %R, %z {modes = "r", sizes = [8]} : f32[8]
    store %R, %b, %z, %n {modes = "r", sizes = [8]}
  }
}
)",
                            {"cse"});
  EXPECT_EQ(Count(fn, OpKind::kLoad), 2);
}

TEST(Dce, DropsDeadCarriedValuesAndBranches) {
  const Function fn = After(Kernel(R"(
    %u = exp2 %a : f32[8, 8]
    %p = cmp %s, %z {pred = "gt"} : bool
    %r, %dead, %feeds = for %z, %n, %a, %u, %u {step = 2}
        : f32[8, 8], f32[8, 8], f32[8, 8]
        do (%i: i64, %x: f32[8, 8], %y: f32[8, 8], %w: f32[8, 8]) {
      %x2 = add %x, %w : f32[8, 8]
      %y2 = exp %y : f32[8, 8]
      %w2 = neg %w : f32[8, 8]
      yield %x2, %y2, %w2
    }
    %g = if %p : f32[8, 8] do {
      yield %u
    } do {
      yield %dead
    }
)"),
                            {"dce"});
  EXPECT_EQ(Count(fn, OpKind::kIf), 0);
  EXPECT_EQ(Count(fn, OpKind::kExp), 0) << "its carried value is dead";
  EXPECT_EQ(Count(fn, OpKind::kNeg), 1) << "feeds a live carried value";
  EXPECT_EQ(Count(fn, OpKind::kExp2), 1);
  for (const Op& op : fn.ops) {
    if (op.kind == OpKind::kFor) {
      EXPECT_EQ(op.results.size(), 2u);
    }
  }
}

TEST(Dce, KeepsEffects) {
  const Function fn = After(Kernel(R"(
    %p = cmp %s, %z {pred = "gt"} : bool
    if %p do {
      print %s {text = "s"}
      yield
    } do {
      yield
    }
    %r = neg %a : f32[8, 8]
)"),
                            {"dce"});
  EXPECT_EQ(Count(fn, OpKind::kPrint), 1);
  EXPECT_EQ(Count(fn, OpKind::kCmp), 1);
}

TEST(HoistInvariant, MovesOutOfAllLoops) {
  const Function fn = After(Kernel(R"(
    %r = for %z, %n, %a {step = 2} : f32[8, 8] do (%i: i64, %x: f32[8, 8]) {
      %x3 = for %z, %n, %x {step = 2} : f32[8, 8] do (%j: i64, %y: f32[8, 8]) {
        %b = load %A, %z, %n {modes = "rr", sizes = [8, 8]} : f32[8, 8]
        %c = neg %b : f32[8, 8]
        %k = add %i, %s : i64
        %d = load %A, %k, %z {modes = "rr", sizes = [8, 8]} : f32[8, 8]
        %e = add %c, %d : f32[8, 8]
        %y2 = add %y, %e : f32[8, 8]
        yield %y2
      }
      yield %x3
    }
)"),
                            {"hoist-invariant"});
  const auto depth = [&](const std::string& name) {
    for (const Op& op : fn.ops)
      if (!op.results.empty() && fn.values[op.results[0]].name == name) {
        int d = 0;
        for (OpId at = fn.blocks[op.block].parent; at.valid();
             at = fn.blocks[fn.ops[at].block].parent)
          ++d;
        return d;
      }
    return -1;
  };
  EXPECT_EQ(depth("b"), 0);
  EXPECT_EQ(depth("c"), 0);
  EXPECT_EQ(depth("k"), 1);
  EXPECT_EQ(depth("d"), 1);
  EXPECT_EQ(depth("e"), 1);
  EXPECT_EQ(depth("y2"), 2);
}

TEST(FoldTranspose, ComposesAndDrops) {
  EXPECT_EQ(Count(After(Kernel("%b = transpose %a {perm = [1, 0]} : f32[8, 8]\n%r = transpose %b "
                               "{perm = [1, 0]} : f32[8, 8]\n"),
                        {"fold-transpose", "dce"}),
                  OpKind::kTranspose),
            0);
  const Function fn = After(
      Kernel("%b = reshape %a : f32[8, 1, 8]\n%c = transpose %b {perm = [1, 0, 2]} : f32[1, 8, 8]\n"
             "%d = transpose %c {perm = [2, 1, 0]} : f32[8, 8, 1]\n%r = reshape %d : f32[8, 8]\n"),
      {"fold-transpose", "dce"});
  EXPECT_EQ(Count(fn, OpKind::kTranspose), 1) << "composed; it swaps the two long dims";
  EXPECT_EQ(Count(After(Kernel("%b = reshape %a : f32[8, 1, 8]\n%c = transpose %b {perm = [1, 0, "
                               "2]} : f32[1, 8, 8]\n%r = reshape %c : f32[8, 8]\n"),
                        {"fold-transpose", "canonicalize", "dce"}),
                  OpKind::kTranspose),
            0)
      << "moves a dim of extent 1 only";
}

// What is stored narrow is turned last, where the lowering stores it turned; not what is loaded, or
// widened, or read by others, too.
TEST(FoldTranspose, WhatIsStoredNarrowIsTurnedLast) {
  const auto after = [](const std::string& made, const std::string& dtype) {
    return After(R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [M, N] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<)" +
                     dtype + R"(, 2> out [N, M] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %N: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %M {steps = [16]} do (%m: i64) {
      %a = load %A, %m, %0 {modes = "rr", sizes = [16, 8]} : f32[16, 8]
      %n = neg %a : f32[16, 8]
)" + made + R"(
      %c = cast %b : )" +
                     dtype +
                     R"([8, 16]
      store %O, %c, %0, %N, %m, %M {modes = "rr", sizes = [8, 16]}
      yield
    }
  }
}
)",
                 {"fold-transpose"});
  };
  const std::string turned = "%b = transpose %n {perm = [1, 0]} : f32[8, 16]\n";
  const std::string moved = Print(after(turned, "bf16"));
  EXPECT_NE(moved.find("cast %n : bf16[16, 8]"), std::string::npos) << moved;
  EXPECT_NE(moved.find("transpose %b {perm = [1, 0]} : bf16[8, 16]"), std::string::npos) << moved;
  const std::string loaded = "%b = transpose %a {perm = [1, 0]} : f32[8, 16]\n";
  const std::string read = turned + "%d = neg %b : f32[8, 16]\n";
  for (const std::string& text :
       {Print(after(loaded, "bf16")), Print(after(turned, "f64")), Print(after(read, "bf16"))})
    EXPECT_NE(text.find("cast %b"), std::string::npos) << text;
}

// ---- the property: passes change no meaning

// ---- the runner

}  // namespace

}  // namespace tilec::ir
