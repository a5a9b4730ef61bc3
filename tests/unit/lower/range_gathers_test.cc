// range-gathers: consecutive positions become ranges, everything else stays a gather, and every
// program keeps every bit, also where positions leave the tensor or 32 bits.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <random>

#include "ir/count_work.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Gathers X[%at, k], writes it to Y and scatters a part of it to Z[%at]; `lines` make %at : i32[8]
// of the grid's position %t, the scalars %s and %u, and what is read from L.
std::string Program(const std::string& lines) {
  return fmt::format(R"(func @f tile {{
  param tensor %X: tensor<f32, 2> in [M, 8] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %L: tensor<i32, 1> in [M] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<f32, 2> out [M, 8] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Z: tensor<f32, 1> out [M] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %M: i64
  param scalar %s: i64
  param scalar %u: i32
  body {{
    %0 = constant {{value = 0}} : i64
    %8 = constant {{value = 8}} : i64
    parallel %0, %M {{steps = [8]}} do (%t: i64) {{
      %p = iota %t : i32[8]
      {}
      %fill = constant {{value = -7.0}} : f32
      %x = load %X, %at, %0, %fill {{modes = "gr", sizes = [8, 8], has_fill = 1}} : f32[8, 8]
      %end = add %t, %8 : i64
      store %Y, %x, %t, %end, %0, %8 {{modes = "rr", sizes = [8, 8]}}
      %first = reduce %x {{kind = "max", axis = 1}} : f32[8]
      store %Z, %first, %at {{modes = "g", sizes = [8]}}
      yield
    }}
  }}
}}
)",
                     lines);
}

Function After(const Function& before, int* changes = nullptr) {
  Function after = before;
  DiagSink diags;
  PassContext cx{diags, H200(), 0};
  EXPECT_TRUE(RangeGathers(after, cx).ok());
  EXPECT_TRUE(Dce(after, cx).ok());
  ExpectVerified(after);
  if (changes) *changes = cx.changes;
  return after;
}

// How many dims are accessed by index tiles.
int64_t Gathered(const Function& fn) {
  int64_t n = 0;
  for (OpId id : OpsInOrder(fn)) {
    const std::string& modes = fn.ops[id].s("modes");
    n += std::count(modes.begin(), modes.end(), 'g');
  }
  return n;
}

struct Scalars {
  double s, u;
};

// One tile only: where positions overlap, tiles would write the same elements.
void ExpectSame(const Function& a, const Function& b, const Scalars& scalars, int64_t m) {
  const auto run = [&](const Function& fn, const char* tensor) {
    InterpretInputs in;
    in.tensors["X"] = TensorValue::Random(DType::kF32, {m, 8}, 1);
    in.tensors["L"] = TensorValue::Zeros(DType::kI32, {m});
    for (size_t i = 0; i < static_cast<size_t>(m); ++i)
      in.tensors["L"].v[i] = static_cast<double>((5 * i + 3) % 11);
    in.tensors["Y"] = TensorValue::Zeros(DType::kF32, {m, 8});
    in.tensors["Z"] = TensorValue::Zeros(DType::kF32, {m});
    in.scalars = {{"s", scalars.s}, {"u", scalars.u}};
    in.dims = {{"M", m}};
    return Interpreted(fn, std::move(in), tensor);
  };
  for (const char* tensor : {"Y", "Z"})
    EXPECT_EQ(run(a, tensor), run(b, tensor))
        << tensor << " for s = " << scalars.s << ", u = " << scalars.u << ", M = " << m << "\n"
        << Print(b);
}

constexpr double kTwo31 = 2147483648.0;
constexpr Scalars kScalars[] = {{0, 0},
                                {3, -2},
                                {-1, 7},
                                {-8, 0},
                                {-9, 1},
                                {40, -40},
                                {5, 2147483647.0},
                                {kTwo31 - 4, 0},
                                {kTwo31, 0},
                                {2 * kTwo31 - 3, 0},
                                {2 * kTwo31 + 2, 0},
                                {-2 * kTwo31 + 1, 0},
                                {-kTwo31 - 5, -2147483648.0},
                                {1099511627776.0 + 3, 5}};

struct Case {
  const char* what;
  const char* lines;
};

constexpr Case kConsecutive[] = {
    {"the range itself", "%z = constant {value = 0} : i32[8]\n%at = add %p, %z : i32[8]\n"},
    {"a scalar more", R"(
      %a = cast %s : i32
      %b = broadcast %a {axes = []} : i32[8]
      %at = add %p, %b : i32[8]
)"},
    {"scalars and constants less", R"(
      %a = cast %s : i32
      %b = broadcast %a {axes = []} : i32[8]
      %c = broadcast %u {axes = []} : i32[8]
      %d = sub %p, %b : i32[8]
      %e = sub %d, %c : i32[8]
      %k = constant {value = -3} : i32[8]
      %at = add %k, %e : i32[8]
)"},
    {"twice from the other side", R"(
      %b = broadcast %u {axes = []} : i32[8]
      %c = sub %b, %p : i32[8]
      %d = neg %c : i32[8]
      %k = constant {value = 2} : i32[8]
      %at = add %d, %k : i32[8]
)"},
    {"in 64 bits", R"(
      %w = cast %p : i64[8]
      %b = broadcast %s {axes = []} : i64[8]
      %c = add %w, %b : i64[8]
      %at = cast %c : i32[8]
)"},
    {"without a sign", R"(
      %w = cast %p : u32[8]
      %a = cast %s : u32
      %b = broadcast %a {axes = []} : u32[8]
      %c = add %w, %b : u32[8]
      %d = cast %c : u64[8]
      %e = cast %d : i64[8]
      %at = cast %e : i32[8]
)"},
    {"in a row and back", R"(
      %w = reshape %p : i32[1, 8]
      %b = broadcast %u {axes = []} : i32[1, 8]
      %c = add %w, %b : i32[1, 8]
      %at = reshape %c : i32[8]
)"},
    {"two iotas more, one less", R"(
      %q = iota %s : i32[8]
      %a = add %p, %q : i32[8]
      %b = sub %a, %p : i32[8]
      %c = broadcast %u {axes = []} : i32[8]
      %d = sub %c, %c : i32[8]
      %at = add %b, %d : i32[8]
)"},
    {"from a tile of one element", R"(
      %a = iota %s : i32[1]
      %b = broadcast %a {axes = [0]} : i32[8]
      %at = add %p, %b : i32[8]
)"},
    {"from a number in memory", R"(
      %a = load %L, %0 {modes = "s", sizes = [1]} : i32
      %b = broadcast %a {axes = []} : i32[8]
      %at = sub %p, %b : i32[8]
)"},
    {"a branch's scalar", R"(
      %a = cmp %s, %0 {pred = "lt"} : bool
      %c = select %a, %s, %t : i64
      %d = cast %c : i32
      %b = broadcast %d {axes = []} : i32[8]
      %at = sub %p, %b : i32[8]
)"},
};

TEST(RangeGathers, ConsecutivePositionsAreARange) {
  for (const Case& c : kConsecutive) {
    SCOPED_TRACE(c.what);
    const Function before = Parsed(Program(c.lines));
    const Function after = After(before);
    EXPECT_EQ(Gathered(after), 0) << Print(after);
    for (const Scalars& scalars : kScalars)
      for (int64_t m : {1, 5, 8}) ExpectSame(before, after, scalars, m);
  }
}

TEST(RangeGathers, OtherPositionsAreGathered) {
  const Case kept[] = {
      {"every second", "%k = constant {value = 2} : i32[8]\n%at = mul %p, %k : i32[8]\n"},
      {"two iotas", "%q = iota %s : i32[8]\n%at = add %p, %q : i32[8]\n"},
      {"downwards", "%at = neg %p : i32[8]\n"},
      {"all the same", "%at = broadcast %u {axes = []} : i32[8]\n"},
      {"from memory", "%at = load %L, %t {modes = \"r\", sizes = [8]} : i32[8]\n"},
      {"from memory, moved",
       "%l = load %L, %t {modes = \"r\", sizes = [8]} : i32[8]\n%at = add %p, %l : i32[8]\n"},
      {"none below zero", "%k = constant {value = 2} : i32[8]\n%at = max %p, %k : i32[8]\n"},
      {"round and round", "%k = constant {value = 3} : i32[8]\n%at = mod %p, %k : i32[8]\n"},
      {"16 bits", "%n = cast %p : i16[8]\n%at = cast %n : i32[8]\n"},
      {"as floats", "%n = cast %p : f32[8]\n%at = cast %n : i32[8]\n"},
      {"carried", R"(
      %k = constant {value = 1} : i32[8]
      %at = for %0, %8, %p {step = 4} : i32[8] do (%i: i64, %q: i32[8]) {
        %r = add %q, %k : i32[8]
        yield %r
      }
)"},
  };
  for (const Case& c : kept) {
    SCOPED_TRACE(c.what);
    int changes = 0;
    const Function after = After(Parsed(Program(c.lines)), &changes);
    EXPECT_EQ(Gathered(after), 2) << Print(after);
  }
}

// A position is 32 bits wide, so a start that may leave them is taken modulo 2³²; one that cannot,
// or only to where nothing is, is not.
TEST(RangeGathers, StartsThatFitAreNotCut) {
  const auto cut = [](const std::string& lines) {
    const Function after = After(Parsed(Program(lines)));
    EXPECT_EQ(Gathered(after), 0);
    return Count(after, OpKind::kCast) > 0;
  };
  const auto constant = [](int64_t k) {
    return fmt::format("%k = constant {{value = {}}} : i32[8]\n%at = add %p, %k : i32[8]\n", k);
  };
  EXPECT_FALSE(cut(constant(-1)));
  EXPECT_FALSE(cut(constant(-2147483648)));  // of the grid's positions 0 is the least
  // 2³¹−2 is the largest. 2³²−8 and the seven behind it are negative, 2³²−7 and the seven are not.
  EXPECT_FALSE(cut(constant(2147483642)));
  EXPECT_TRUE(cut(constant(2147483643)));
  // Scalars of the kernel may be anything; remainders, quotients and smaller ones of sizes are not.
  const auto scalar = [](const std::string& lines) {
    return lines +
           "%c = cast %a : i32\n%b = broadcast %c {axes = []} : i32[8]\n%at = add %p, %b : "
           "i32[8]\n";
  };
  EXPECT_TRUE(cut("%b = broadcast %u {axes = []} : i32[8]\n%at = add %p, %b : i32[8]\n"));
  EXPECT_TRUE(cut(scalar("%a = add %s, %t : i64\n")));
  EXPECT_FALSE(cut(scalar("%a = mod %s, %8 : i64\n")));
  EXPECT_FALSE(cut(scalar("%a = div %M, %8 : i64\n")));
  EXPECT_FALSE(cut(scalar("%n = neg %M : i64\n%a = max %n, %8 : i64\n")));
  EXPECT_TRUE(cut(scalar("%n = neg %M : i64\n%a = sub %n, %M : i64\n")));  // −2³²+2
}

// Sums of an iota and of random scalars, whose values reach far beyond 32 bits.
TEST(RangeGathers, RandomStarts) {
  int ranges = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::string> scalars = {"%s", "%t", "%M"};
    std::string lines, at = "%p";
    for (int i = 0; i < 8; ++i) {
      const auto pick = [&] { return scalars[random() % scalars.size()]; };
      const std::string name = fmt::format("%v{}", i);
      static constexpr int64_t kValues[] = {-1, 2, 3, 7, 2147483647, -2147483648, 4294967296, 48};
      static constexpr const char* kOps[] = {"add", "sub", "mul", "div", "mod", "min", "max"};
      if (random() % 4 == 0)
        lines += fmt::format("{} = constant {{value = {}}} : i64\n", name, kValues[random() % 8]);
      else
        lines += fmt::format("{} = {} {}, {} : i64\n", name, kOps[random() % 7], pick(), pick());
      scalars.push_back(name);
    }
    for (int i = 0; i < 3; ++i) {
      static constexpr const char* kTypes[] = {"i32", "u32", "i64", "u64"};
      const std::string type = kTypes[random() % 4];
      lines += fmt::format("%w{0} = cast {1} : {2}[8]\n%n{0} = cast {3} : {2}\n", i, at, type,
                           scalars[random() % scalars.size()]);
      lines += fmt::format("%b{0} = broadcast %n{0} {{axes = []}} : {1}[8]\n", i, type);
      lines +=
          fmt::format("%x{0} = {1} %w{0}, %b{0} : {2}[8]\n", i, random() % 2 ? "add" : "sub", type);
      at = fmt::format("%x{}", i);
    }
    const Function before = Parsed(Program(lines + fmt::format("%at = cast {} : i32[8]\n", at)));
    const Function after = After(before);
    ranges += Gathered(after) == 0;
    for (const Scalars& values : kScalars) ExpectSame(before, after, values, 5);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_EQ(ranges, 400);
}

// What is counted of a range is the part inside, before its tensor and behind it.
TEST(RangeGathers, CountsWhatIsInside) {
  const auto moved = [](int64_t by, int64_t m) {
    const Function fn = After(Parsed(Program(
        fmt::format("%k = constant {{value = {}}} : i32[8]\n%at = add %p, %k : i32[8]\n", by))));
    const WorkCount work = CountWork(fn, {{"M", m}, {"s", 0}, {"u", 0}}, H200());
    // Rows of 32 bytes are loaded; of them the elements of Z are stored, and all of Y.
    EXPECT_EQ(work.stored_bytes, work.loaded_bytes / 8 + static_cast<double>(m) * 32);
    return work.loaded_bytes / 32;
  };
  EXPECT_EQ(moved(0, 5), 5);
  EXPECT_EQ(moved(-3, 5), 5);  // three before, five inside
  EXPECT_EQ(moved(-5, 5), 3);
  EXPECT_EQ(moved(-8, 5), 0);
  EXPECT_EQ(moved(2, 5), 3);
  EXPECT_EQ(moved(90, 5), 0);
  EXPECT_EQ(moved(-1, 20), 7 + 8 + 5);
}

// The fill is the last operand, ranges of stores have an end, and what is known of one dim does not
// hinder another.
TEST(RangeGathers, OtherDimsStayAsTheyAre) {
  std::string text = Program("%k = constant {value = 2} : i32[8]\n%at = mul %p, %k : i32[8]\n");
  text = With(text, "load %X, %at, %0, %fill {modes = \"gr\"",
              "load %X, %at, %p, %fill {modes = \"gg\"");
  text = With(text, "store %Y, %x, %t, %end, %0, %8 {modes = \"rr\"",
              "store %Y, %x, %t, %end, %p {modes = \"rg\"");
  const Function before = Parsed(text);
  int changes = 0;
  const Function after = After(before, &changes);
  EXPECT_EQ(changes, 2);
  for (OpId id : OpsInOrder(after)) {
    const Op& op = after.ops[id];
    if (op.kind == OpKind::kLoad) {
      EXPECT_EQ(op.s("modes"), "gr");
    } else if (op.kind == OpKind::kStore && after.type(op.operands[1]).rank() == 2) {
      EXPECT_EQ(op.s("modes"), "rr");
    }
  }
  for (int64_t m : {1, 3, 8}) ExpectSame(before, after, {0, 0}, m);
}

}  // namespace
}  // namespace tilec::ir
