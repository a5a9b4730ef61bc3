// SPDX-License-Identifier: Apache-2.0
#include "ir/pass.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "ir/interpret.h"
#include "ir/passes/passes.h"
#include "support/file.h"
#include "tests/unit/h200.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {
namespace {

// A function over %A: f32[8, 8] in, %R: f32[8, 8] out, with the given body lines; %z = 0, %n = 8.
std::string Kernel(const std::string& body) {
  return fmt::format(R"(func @f tile {{
  param tensor %A: tensor<f32, 2> in [8, 8] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [8, 8] align=1 stride_align=1 contiguous=1
  param scalar %s: i64
  body {{
    %z = constant {{value = 0}} : i64
    %n = constant {{value = 8}} : i64
    %a = load %A, %z, %z {{modes = "rr", sizes = [8, 8]}} : f32[8, 8]
{}    store %R, %r, %z, %n, %z, %n {{modes = "rr", sizes = [8, 8]}}
  }}
}}
)",
                     body);
}

Function After(const std::string& text, std::vector<std::string> passes) {
  Function fn = Parsed(text);
  DiagSink diags;
  Result<std::vector<PassId>> pipeline = PipelineFromNames(passes, kTileLevel, diags);
  if (!pipeline.ok() || !RunPasses(fn, *pipeline, H200(), {}, diags).ok())
    ADD_FAILURE() << Messages(diags);
  return fn;
}

int Count(const Function& fn, OpKind kind) {
  int n = 0;
  std::vector<BlockId> work = {fn.body};
  while (!work.empty()) {
    const BlockId b = work.back();
    work.pop_back();
    for (OpId id : fn.blocks[b].ops) {
      n += fn.ops[id].kind == kind;
      work.insert(work.end(), fn.ops[id].regions.begin(), fn.ops[id].regions.end());
    }
  }
  return n;
}

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

// ---- the property: passes change no meaning

// Straight-line and structured programs over f32, i32 and bool tiles [8, 8], all of whose ops are
// exact or compared by value.
std::string RandomBody(std::mt19937& random, int lines) {
  std::string out;
  std::vector<std::string> floats = {"%a"}, ints, bools;
  int next = 0;
  const auto pick = [&](const std::vector<std::string>& from) {
    return from[random() % from.size()];
  };
  const auto fresh = [&] { return fmt::format("%t{}", next++); };
  const auto emit = [&](std::vector<std::string>& to, const std::string& rhs) {
    const std::string name = fresh();
    out += fmt::format("    {} = {}\n", name, rhs);
    to.push_back(name);
  };
  const char* constants[] = {"0.0", "-0.0", "1.0", "2.0", "-3.5", "0.1"};
  emit(ints, "cast %a : i32[8, 8]");
  emit(bools, "cmp %a, %a {pred = \"le\"} : bool[8, 8]");
  for (int i = 0; i < lines; ++i) {
    switch (random() % 16) {
      case 0:
        emit(floats, fmt::format("constant {{value = {}}} : f32[8, 8]", constants[random() % 6]));
        break;
      case 1:
        emit(floats, fmt::format("add {}, {} : f32[8, 8]", pick(floats), pick(floats)));
        break;
      case 2:
        emit(floats, fmt::format("mul {}, {} : f32[8, 8]", pick(floats), pick(floats)));
        break;
      case 3:
        emit(floats, fmt::format("sub {}, {} : f32[8, 8]", pick(floats), pick(floats)));
        break;
      case 4: emit(floats, fmt::format("neg {} : f32[8, 8]", pick(floats))); break;
      case 5:
        emit(floats, fmt::format("transpose {} {{perm = [1, 0]}} : f32[8, 8]", pick(floats)));
        break;
      case 6:
        emit(floats,
             fmt::format("select {}, {}, {} : f32[8, 8]", pick(bools), pick(floats), pick(floats)));
        break;
      case 7: emit(floats, fmt::format("cast {} : f32[8, 8]", pick(ints))); break;
      case 8:
        emit(ints, fmt::format("constant {{value = {}}} : i32[8, 8]",
                               static_cast<int>(random() % 4) - 1));
        break;
      case 9: {
        const char* kinds[] = {"add", "sub", "mul", "and", "or", "xor", "min", "max", "shl", "shr"};
        emit(ints,
             fmt::format("{} {}, {} : i32[8, 8]", kinds[random() % 10], pick(ints), pick(ints)));
        break;
      }
      case 10:
        emit(bools,
             fmt::format("cmp {}, {} {{pred = \"lt\"}} : bool[8, 8]", pick(floats), pick(floats)));
        break;
      case 11: emit(bools, fmt::format("not {} : bool[8, 8]", pick(bools))); break;
      case 12: {
        const std::string b = fresh();
        out += fmt::format("    {} = cast {} : f64[8, 8]\n", b, pick(floats));
        emit(floats, fmt::format("cast {} : f32[8, 8]", b));
        break;
      }
      case 13: {
        const std::string row = fresh();
        out += fmt::format("    {} = reduce {} {{kind = \"max\", axis = {}}} : f32[8]\n", row,
                           pick(floats), random() % 2);
        emit(floats, fmt::format("broadcast {} {{axes = [{}]}} : f32[8, 8]", row, random() % 2));
        break;
      }
      case 14: {  // a loop: carries two values, one perhaps dead; constant or runtime bounds
        const std::string r = fresh(), d = fresh(), i2 = fresh(), x = fresh(), y = fresh(),
                          x2 = fresh(), y2 = fresh(), c = fresh();
        out += fmt::format(
            "    {}, {} = for {}, {}, {}, {} {{step = {}}} : f32[8, 8], f32[8, 8] do ({}: i64, {}: "
            "f32[8, 8], {}: f32[8, 8]) {{\n",
            r, d, random() % 4 ? "%z" : "%n", random() % 3 ? "%n" : "%s", pick(floats),
            pick(floats), 3 + 5 * (random() % 2), i2, x, y);
        out += fmt::format(
            "      {} = load %A, {}, %z {{modes = \"rr\", sizes = [8, 8]}} : f32[8, 8]\n", c,
            random() % 2 ? i2 : "%s");
        out += fmt::format(
            "      {} = sub {}, {} : f32[8, 8]\n      {} = max {}, {} : f32[8, 8]\n      yield {}, "
            "{}\n    }}\n",
            x2, x, random() % 2 ? c : pick(floats), y2, y, pick(floats), x2, random() % 2 ? y2 : x);
        floats.push_back(r);
        if (random() % 2) floats.push_back(d);
        break;
      }
      case 15: {
        const std::string p = fresh(), r = fresh(), t = fresh();
        out += fmt::format("    {} = cmp {}, %z {{pred = \"{}\"}} : bool\n", p,
                           random() % 2 ? "%s" : "%n", random() % 2 ? "gt" : "le");
        out += fmt::format(
            "    {} = if {} : f32[8, 8] do {{\n      {} = neg {} : f32[8, 8]\n      yield {}\n    "
            "}} do {{\n      yield {}\n    }}\n",
            r, p, t, pick(floats), t, pick(floats));
        floats.push_back(r);
        break;
      }
    }
  }
  return out + fmt::format("    %r = add {}, {} : f32[8, 8]\n", floats.back(), pick(floats));
}

TEST(Passes, ChangeNoMeaning) {
  int changed = 0;
  for (uint32_t seed = 0; seed < 250; ++seed) {
    std::mt19937 random(seed);
    const std::string text = Kernel(RandomBody(random, 4 + static_cast<int>(seed % 30)));
    Function fn = Parsed(text);
    const auto run = [&](const Function& f) {
      InterpretInputs inputs;
      inputs.tensors["A"] = TensorValue::Random(DType::kF32, {8, 8}, seed);
      for (size_t i = 0; i < 8; ++i) inputs.tensors["A"].v[i] = static_cast<double>(i) - 3;
      inputs.scalars["s"] = static_cast<double>(seed % 5) - 1;
      DiagSink diags;
      EXPECT_TRUE(Interpret(f, inputs, {}, diags).ok()) << Messages(diags);
      return inputs.tensors["R"];
    };
    const TensorValue before = run(fn);
    DiagSink diags;
    Result<PassOutcome> outcome = RunPasses(fn, kCleanUp, H200(), {}, diags);
    ASSERT_TRUE(outcome.ok()) << "seed " << seed << "\n" << Messages(diags) << text;
    for (const PassTime& t : outcome->times) changed += t.changes > 0;
    const TensorValue after = run(fn);
    for (size_t i = 0; i < before.v.size(); ++i) {
      const bool same =
          before.v[i] == after.v[i] || (std::isnan(before.v[i]) && std::isnan(after.v[i]));
      ASSERT_TRUE(same) << "seed " << seed << " element " << i << ": " << before.v[i] << " became "
                        << after.v[i] << "\n"
                        << text << Print(fn);
    }
    // A second run finds little; a third nothing.
    Function again = fn;
    ASSERT_TRUE(RunPasses(again, kCleanUp, H200(), {}, diags).ok());
    ASSERT_TRUE(RunPasses(again, kCleanUp, H200(), {}, diags).ok());
    Result<PassOutcome> settled = RunPasses(again, kCleanUp, H200(), {}, diags);
    ASSERT_TRUE(settled.ok());
    for (const PassTime& t : settled->times)
      EXPECT_EQ(t.changes, 0) << "seed " << seed << " " << t.name;
  }
  EXPECT_GT(changed, 500) << "the generator gives the passes too little to do";
}

// ---- the runner

TEST(Runner, PrintsTimesAndStops) {
  Function fn = Parsed(Kernel("%b = neg %a : f32[8, 8]\n%r = neg %b : f32[8, 8]\n"));
  PassOptions options;
  options.print_after = {"canonicalize", "cse"};
  options.stop_after = "cse";
  DiagSink diags;
  Result<PassOutcome> outcome = RunPasses(fn, kCleanUp, H200(), options, diags);
  ASSERT_TRUE(outcome.ok()) << Messages(diags);
  EXPECT_TRUE(outcome->stopped);
  ASSERT_GE(outcome->times.size(), 2u);  // all passes up to this one
  EXPECT_EQ(outcome->times.front().name, "decode-scales");
  EXPECT_EQ(outcome->times.back().name, "cse");
  EXPECT_NE(outcome->printed.find("// after canonicalize: 1 changes\nfunc @f"), std::string::npos)
      << outcome->printed;
  EXPECT_NE(outcome->printed.find("// after cse: unchanged"), std::string::npos)
      << outcome->printed;
  EXPECT_NE(TimesTable(outcome->times).find("fold-transpose"), std::string::npos);
}

TEST(Runner, UnknownNamesAndNeeds) {
  Function fn = Parsed(Kernel("%r = neg %a : f32[8, 8]\n"));
  DiagSink diags;
  PassOptions options;
  options.stop_after = "frob";
  EXPECT_FALSE(RunPasses(fn, kCleanUp, H200(), options, diags).ok());
  EXPECT_EQ(FirstCode(diags), "I240");
  DiagSink needs;
  const std::string names[] = {"hoist-invariant"};
  EXPECT_FALSE(PipelineFromNames(names, kWarpLevel, needs).ok());
  EXPECT_EQ(FirstCode(needs), "I242");
}

Result<> Breaks(Function& fn, PassContext& cx) {
  for (Op& op : fn.ops)
    if (op.kind == OpKind::kNeg) op.operands.clear();
  ++cx.changes;
  return Done();
}
Result<> Crashes(Function&, PassContext&) { UNREACHABLE("a pass went wrong"); }

// The one bundle under `dir`: what its report says, and IR that still parses and verifies.
std::string ReportOfBundle(const std::filesystem::path& dir) {
  std::string report, before, why;
  int bundles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    ++bundles;
    EXPECT_TRUE(ReadFile((entry.path() / "report.txt").string(), &report, &why)) << why;
    EXPECT_TRUE(ReadFile((entry.path() / "before.ir").string(), &before, &why)) << why;
    EXPECT_EQ(Count(Parsed(before), OpKind::kNeg), 1);
  }
  EXPECT_EQ(bundles, 1);
  return report;
}

struct TempDir {
  std::filesystem::path path;
  explicit TempDir(const char* name)
      : path(std::filesystem::temp_directory_path() /
             fmt::format("tilec_{}_{}", name, ::getpid())) {
    std::filesystem::remove_all(path);
  }
  ~TempDir() { std::filesystem::remove_all(path); }
};

TEST(Runner, BrokenIrLeavesABundle) {
  const TempDir dir("broke");
  Function fn = Parsed(Kernel("%r = neg %a : f32[8, 8]\n"));
  const PassStep steps[] = {StepOf(PassId::kCse), {{"breaks", "for the test"}, Breaks}};
  PassOptions options;
  options.crash_dir = dir.path.string();
  options.version = "1.2.3";
  DiagSink diags;
  EXPECT_FALSE(RunSteps(fn, steps, H200(), options, diags).ok());
  ASSERT_EQ(diags.all().size(), 2u) << Messages(diags);
  EXPECT_STREQ(diags.all()[0].def->code, "I211");
  EXPECT_STREQ(diags.all()[1].def->code, "I241");
  const std::string report = ReportOfBundle(dir.path);
  EXPECT_NE(report.find("before.ir --passes=breaks"), std::string::npos) << report;
  EXPECT_NE(report.find("pipeline: cse,breaks"), std::string::npos) << report;
  EXPECT_NE(report.find("1.2.3"), std::string::npos) << report;
}

TEST(RunnerDeathTest, CrashLeavesABundle) {
  const TempDir dir("crash");
  const auto crash = [&] {
    Function fn = Parsed(Kernel("%r = neg %a : f32[8, 8]\n"));
    const PassStep steps[] = {{{"crashes", "for the test"}, Crashes}};
    PassOptions options;
    options.crash_dir = dir.path.string();
    DiagSink diags;
    (void)RunSteps(fn, steps, H200(), options, diags);
  };
  EXPECT_DEATH(crash(), "crash bundle: ");
  EXPECT_NE(ReportOfBundle(dir.path).find("a pass went wrong"), std::string::npos);
}

}  // namespace
}  // namespace tilec::ir
