// Every pass on random programs: what the program means stays as it was.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "ir/interpret.h"
#include "ir/pass.h"
#include "ir/passes/passes.h"
#include "tests/unit/h200.h"
#include "tests/unit/ir/pass_kernel.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {

namespace {

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

}  // namespace

}  // namespace tilec::ir
