// Turns of several loops over a row that CTAs share: the same results for every length, only where
// that may be, and a proof of what the CTAs do to each other.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/split_loops.h"

#include "ir/clean_up.h"
#include "ir/passes/passes.h"
#include "ir/passes/split_reductions.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir::split_loops_test {
namespace {

// The sum of a row, less its smallest, on top of the row; the sum is stored, too.
constexpr const char* kLongRows = R"(
func @rows tile {
  param tensor %X: tensor<f32, 2> in [R, C] align=16 stride_align=4 contiguous=1 last_align=1
  param tensor %Y: tensor<f32, 2> out [R, C] align=16 stride_align=4 contiguous=1 last_align=1
  param tensor %S: tensor<f32, 1> out [R] align=16 stride_align=4 contiguous=1 last_align=1
  param dim %R: i64
  param dim %C: i64
  body {
    %0 = constant {value = 0} : i64
    %2 = constant {value = 2} : i64
    parallel %0, %R {steps = [2]} do (%r: i64) {
      %start = constant {value = 3.0} : f32[2]
      %inf = constant {value = inf} : f32[2]
      %fill = constant {value = inf} : f32
      %re = add %r, %2 : i64
      %rend = min %re, %R : i64
      %sum = for %0, %C, %start {step = 32} : f32[2] do (%c: i64, %t: f32[2]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [2, 32]} : f32[2, 32]
        %s = reduce %x {kind = "sum", axis = 1} : f32[2]
        %next = add %t, %s : f32[2]
        yield %next
      }
      store %S, %sum, %r, %rend {modes = "r", sizes = [2]}
      %least = for %0, %C, %inf {step = 32} : f32[2] do (%c1: i64, %t1: f32[2]) {
        %x1 = load %X, %r, %c1, %fill {modes = "rr", sizes = [2, 32], has_fill = 1} : f32[2, 32]
        %s1 = reduce %x1 {kind = "min", axis = 1} : f32[2]
        %next1 = min %t1, %s1 : f32[2]
        yield %next1
      }
      %by = sub %sum, %least : f32[2]
      %col = reshape %by : f32[2, 1]
      %all = broadcast %col {axes = [0, 1]} : f32[2, 32]
      %32 = constant {value = 32} : i64
      for %0, %C {step = 32} do (%c2: i64) {
        %x2 = load %X, %r, %c2 {modes = "rr", sizes = [2, 32]} : f32[2, 32]
        %y = add %x2, %all : f32[2, 32]
        %ce = add %c2, %32 : i64
        %cend = min %ce, %C : i64
        store %Y, %y, %r, %rend, %c2, %cend {modes = "rr", sizes = [2, 32]}
        yield
      }
      yield
    }
  }
}
)";

Function InParts(const Function& fn, int64_t ctas) {
  Function out = fn;
  const std::optional<Obstacle> obstacle = SplitReductions(out, ctas, H200());
  EXPECT_FALSE(obstacle) << obstacle->why;
  ExpectVerified(out);
  return out;
}

std::vector<double> Made(const Function& fn, const char* tensor, int64_t r, int64_t c) {
  InterpretInputs in;
  in.tensors["X"] = Numbers(DType::kF32, {r, c}, 3);
  in.tensors["Y"] = TensorValue::Zeros(DType::kF32, {r, c});
  in.tensors["S"] = TensorValue::Zeros(DType::kF32, {r});
  in.dims = {{"R", r}, {"C", c}};
  return Interpreted(fn, std::move(in), tensor);
}

// Fewer turns than CTAs, as many, a last turn that hangs over.
TEST(SplitLoops, SameResultsForEveryLength) {
  const Function before = Parsed(kLongRows);
  ASSERT_TRUE(HasSeveralLoops(before));
  for (int64_t ctas : {2, 4, 8}) {
    const Function after = InParts(before, ctas);
    for (int64_t c : {1, 31, 32, 33, 64, 100, 256, 260, 300})
      for (const char* tensor : {"Y", "S"})
        EXPECT_EQ(Made(before, tensor, 5, c), Made(after, tensor, 5, c)) << ctas << " " << c;
  }
}

// Every turn once, all CTAs know what came of all, and one writes what is no turn's.
TEST(SplitLoops, AllGetWhatTheFirstWrites) {
  const Function fn = InParts(Parsed(kLongRows), 4);
  int all = 0, loops = 0;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kClusterReduce) all += op.i("all", 0) == 1;
    const OpId parent = fn.blocks[op.block].parent;
    if (op.kind != OpKind::kStore) continue;
    loops += fn.ops[parent].kind == OpKind::kFor;
    if (fn.param(op.operands[0])->name != "S") continue;
    EXPECT_EQ(fn.ops[parent].kind, OpKind::kIf);
  }
  EXPECT_EQ(all, 2);
  EXPECT_EQ(loops, 1);
}

// Parts of one known length keep what their loops read again: four tiles are loaded once, and a
// loop that reads with another fill stays.
TEST(SplitLoops, PartsOfOneLengthAreReadOnce) {
  std::string text = With(kLongRows, "[R, C] align=16 stride_align=4 contiguous=1 last_align=1",
                          "[R, 512] align=16 stride_align=16 contiguous=1 last_align=4");
  text = With(text, "for %0, %C", "for %0, %end");
  text = With(text, "min %ce, %C", "min %ce, %end");
  text = With(text, "    %2 = ", "    %end = constant {value = 512} : i64\n    %2 = ");
  const Function before = Parsed(text);
  const Function split = InParts(before, 4);
  DiagSink diags;
  PassContext cx{diags, H200(), 0};
  Function after = split;
  ASSERT_TRUE(KeepRows(after, cx).ok());
  ExpectVerified(after);
  EXPECT_EQ(cx.changes, 1);
  EXPECT_EQ(Count(split, OpKind::kFor), 3);
  EXPECT_EQ(Count(after, OpKind::kFor), 1);
  EXPECT_EQ(Count(after, OpKind::kLoad), 4 + 1);
  for (const char* tensor : {"Y", "S"})
    EXPECT_EQ(Made(before, tensor, 5, 512), Made(after, tensor, 5, 512));
  // Of 500 columns there are 16 turns, the last of which hangs over: so it did in one CTA.
  const Function over = Parsed(With(text, "512", "500"));
  Function parts = InParts(over, 4);
  PassContext again{diags, H200(), 0};
  ASSERT_TRUE(KeepRows(parts, again).ok());
  ExpectVerified(parts);
  EXPECT_EQ(Count(parts, OpKind::kLoad), 4 + 1);
  for (const char* tensor : {"Y", "S"})
    EXPECT_EQ(Made(over, tensor, 5, 500), Made(parts, tensor, 5, 500));
  // 480 columns are 15 turns, not the same for all.
  Function uneven = InParts(Parsed(With(text, "512", "480")), 4);
  PassContext none{diags, H200(), 0};
  ASSERT_TRUE(KeepRows(uneven, none).ok());
  EXPECT_EQ(none.changes, 0);
}

std::string Why(const std::string& text) {
  Function out = Parsed(text);
  const std::string before = Print(out);
  const std::optional<Obstacle> obstacle = SplitLoops(out, 4);
  EXPECT_TRUE(!obstacle || Print(out) == before);
  return obstacle ? obstacle->why : "";
}

TEST(SplitLoops, Obstacles) {
  EXPECT_EQ(Why(kLongRows), "");
  const std::string store = "store %Y, %y, %r, %rend, %c2, %cend {modes = \"rr\", sizes = [2, 32]}";
  // Turns of 32 columns every 16.
  EXPECT_NE(
      Why(With(kLongRows, "for %0, %C {step = 32}", "for %0, %C {step = 16}")).find("the same"),
      std::string::npos);
  // In two places; at a place that does not move.
  EXPECT_NE(Why(With(kLongRows, store, store + "\n        " + store)).find("elements of its own"),
            std::string::npos);
  EXPECT_NE(Why(With(kLongRows, "%r, %rend, %c2, %cend", "%r, %rend, %0, %cend")).find("the same"),
            std::string::npos);
  // What is written is read.
  EXPECT_NE(Why(With(With(kLongRows, "%Y: tensor<f32, 2> out", "%Y: tensor<f32, 2> inout"),
                     "%x2 = load %X", "%x2 = load %Y"))
                .find("that it writes"),
            std::string::npos);
  // Parts of a product do not become one by a sum.
  EXPECT_NE(
      Why(With(kLongRows, "%next1 = min %t1, %s1", "%next1 = mul %t1, %s1")).find("only add up"),
      std::string::npos);
  // A sum that somebody looks at while it grows.
  EXPECT_NE(Why(With(kLongRows, "        yield %next\n",
                     "        store %S, %next, %r, %rend {modes = \"r\", sizes = [2]}\n"
                     "        yield %next\n")),
            "");
}

// Several exchanges, one behind the other, and loops between and behind them.
TEST(SplitLoops, CtasAreProvedTogether) {
  Function parts = Parsed(kLongRows);
  const std::optional<Obstacle> obstacle = SplitLoopsOfRows(parts, 4, H200());
  ASSERT_FALSE(obstacle) << obstacle->why;
  DiagSink diags;
  const Result<Function> made = Sequentialize(parts, H200(), {}, diags);
  ASSERT_TRUE(made.ok());
  const Function& warps = *made;
  EXPECT_EQ(warps.launch.cluster, 4);
  EXPECT_EQ(Said(warps), "");
  int meetings = 0;
  for (OpId id : OpsInOrder(warps)) {
    Function broken = warps;
    Op& op = broken.ops[id];
    if (op.kind != OpKind::kClusterSync) continue;
    ++meetings;
    std::erase(broken.blocks[op.block].ops, id);
    EXPECT_NE(Said(broken), "");
  }
  EXPECT_EQ(meetings, 2);
}

// The same with one row to a tile, whose sums are numbers, and columns scaled in the last loop.
std::string OneRow(int columns) {
  std::string text = kLongRows;
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"f32[2]", "f32[1]"}, {"[2, 32]", "[1, 32]"}, {"[2, 1]", "[1, 1]"},
           {"sizes = [2]", "sizes = [1]"}, {"steps = [2]", "steps = [1]"},
           {"%2 = constant {value = 2}", "%2 = constant {value = 1}"},
           {"for %0, %C", "for %0, %end"}, {"min %ce, %C", "min %ce, %end"},
           {"[R, C] align=16 stride_align=4 contiguous=1 last_align=1",
            "[R, " + std::to_string(columns) +
                "] align=16 stride_align=16 contiguous=1 last_align=4"},
           {"  param dim %R", "  param tensor %G: tensor<f32, 1> in [" + std::to_string(columns) +
                                  "] align=16 stride_align=16 contiguous=1 last_align=4\n"
                                  "  param dim %R"},
           {"    %2 = ", "    %end = constant {value = " + std::to_string(columns) +
                             "} : i64\n    %2 = "},
           {"        %y = add %x2, %all : f32[1, 32]\n",
            "        %y0 = add %x2, %all : f32[1, 32]\n"
            "        %g = load %G, %c2 {modes = \"r\", sizes = [32]} : f32[32]\n"
            "        %gr = reshape %g : f32[1, 32]\n"
            "        %y = mul %y0, %gr : f32[1, 32]\n"}})
    text = With(text, from, to);
  return text;
}

// What the last loop reads of a vector is on its way while CTAs wait for each other; alone nobody
// waits, and it is read where it is used.
TEST(SplitLoops, VectorsAreReadBeforeTheExchange) {
  const auto early = [](Function fn) {
    DiagSink diags;
    PassContext cx{diags, H200(), 0};
    EXPECT_TRUE(KeepRows(fn, cx).ok());
    EXPECT_EQ(cx.changes, 1);
    ExpectVerified(fn);
    size_t last = 0, at = 0, meets = 0;
    for (OpId id : OpsInOrder(fn)) {
      ++at;
      const Op& op = fn.ops[id];
      if (op.kind == OpKind::kLoad && fn.param(op.operands[0])->name == "G") last = at;
      if (op.kind == OpKind::kReduce && meets == 0) meets = at;
    }
    EXPECT_GT(last, 0u);
    return last < meets;
  };
  const Function fn = Parsed(OneRow(512));
  EXPECT_FALSE(early(fn));
  EXPECT_TRUE(early(InParts(fn, 4)));
}

// A number that all CTAs get is sent to them, and no barrier says when: its bytes are nobody
// else's.
TEST(SplitLoops, NumbersAreSentToBytesOfTheirOwn) {
  Function parts = Parsed(OneRow(512));
  const std::optional<Obstacle> obstacle = SplitLoopsOfRows(parts, 4, H200());
  ASSERT_FALSE(obstacle) << obstacle->why;
  DiagSink diags;
  const Result<Function> made = Sequentialize(parts, H200(), {}, diags);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(Said(*made), "");
  std::vector<OpId> sent, initialized;
  for (OpId id : OpsInOrder(*made)) {
    const Op& op = made->ops[id];
    if (op.kind == OpKind::kMbarInit) initialized.push_back(id);
    if (op.kind != OpKind::kWarpClusterReduce) continue;
    EXPECT_EQ(made->type(op.operands[2]).depth, 1);
    EXPECT_EQ(made->type(op.operands[1]).depth, 4);
    sent.push_back(id);
  }
  ASSERT_EQ(sent.size(), 2u);
  for (OpId id : initialized) EXPECT_EQ(made->ops[id].i("count"), 1);
  Function broken = *made;
  const auto alloc = [&](size_t i) {
    return broken.values[broken.ops[sent[i]].operands[1]].def;
  };
  broken.ops[alloc(1)].set("offset", broken.ops[alloc(0)].i("offset"));
  EXPECT_NE(Said(broken).find("other CTAs write"), std::string::npos) << Said(broken);
  Function scratch = *made;
  for (OpId id : OpsInOrder(scratch))
    if (scratch.ops[id].kind == OpKind::kWarpReduce)
      scratch.ops[id].set("scratch", int64_t{0});
  EXPECT_NE(Said(scratch).find("other CTAs write"), std::string::npos) << Said(scratch);
  for (OpId id : OpsInOrder(*made)) {
    Function apart = *made;
    Op& op = apart.ops[id];
    if (op.kind != OpKind::kClusterSync) continue;
    std::erase(apart.blocks[op.block].ops, id);
    EXPECT_NE(Said(apart), "");
  }
}

}  // namespace
}  // namespace tilec::ir::split_loops_test
