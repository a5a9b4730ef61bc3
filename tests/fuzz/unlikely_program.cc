// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/unlikely_program.h"

#include <fmt/format.h>

#include "tests/fuzz/maker.h"

namespace tilec::fuzz {
namespace {

class UnlikelyMaker : KernelMaker {
 public:
  explicit UnlikelyMaker(uint64_t seed) : KernelMaker(seed, seed * 41 + 11) {}

  TileProgram Run() {
    products_ = rng_.Chance(35);
    rows_ = products_ ? 64 : Pick<int>({1, 8, 16, 32});
    batch_ = rng_.Chance(50);
    heads_ = batch_ && rng_.Chance(40);
    bias_ = rng_.Chance(20);
    b_ = batch_ ? "b" : "0";
    h_ = heads_ ? "h" : "0";
    Body("    ");
    std::vector<std::string> ranges = {
        rows_ == 1 ? "m in 0..M"
                   : fmt::format("m in tiles({}M, {})", rng_.Chance(10) ? "4.." : "", rows_)};
    if (batch_) ranges.insert(ranges.begin() + rng_.Below(2), "b in 0..B");
    if (heads_) ranges.insert(ranges.begin() + rng_.Below(3), "h in 0..H");
    program_.text = fmt::format(
        "fn twice(x: f32[R, C]) -> f32[R, C] {{ return x + x }}\n\n"
        "kernel program(X: f32[B, H, M, N], A: f16[M, K], W: f16[64, K], S: i32[M], b0: {}f32[64], "
        "Y: {} f32[B, H, M, N], Z: inout f32[B, H, M], count: inout i32[2], limit: f32)\n"
        "  where N <= 64, B >= 0, H >= 0\n{{\n  parallel {} {{\n{}  }}\n}}\n",
        bias_ ? "optional " : "", reads_ ? "inout" : "out", fmt::join(ranges, ", "), body_);
    program_.kernel = bias_ && rng_.Chance(50) ? "program_b0" : "program";
    program_.values.emplace_back("B", Size({1, 2, 3}));
    program_.values.emplace_back("H", Size({1, 2}));
    program_.values.emplace_back("M", Size({1, 5, 33, 64, 70, 300}));
    program_.values.emplace_back("N", Size({64, 64, 40, 7}));
    program_.values.emplace_back("K", Size({64, 96, 136}));
    program_.values.emplace_back("limit", Pick<double>({-2.0, 0.0, 0.5, 0.875, 0.96875, 2.0}));
    return std::move(program_);
  }

 private:
  int64_t Size(const std::vector<int64_t>& from) { return rng_.Chance(4) ? 0 : Pick(from); }
  bool IsRow() const { return rows_ == 1; }
  std::string Reduced(const std::string& kind, const std::string& of) const {
    return fmt::format("{}({}, axis = {})", kind, of, IsRow() ? 0 : 1);
  }
  std::string Place(const std::string& columns = "0..64") const {
    return fmt::format("Y[{}, {}, m, {}]", b_, h_, columns);
  }
  std::string Sums() const { return fmt::format("Z[{}, {}, m]", b_, h_); }

  std::string Condition() {
    const std::string most = Reduced("max", "x");
    if (IsRow())
      return Pick<std::string>({most + " > limit", "limit > 0.75", "S[m] > 3", "m % 3 == 1",
                                "any(x > limit)", most + " > limit and S[m] > 0"});
    return Pick<std::string>({fmt::format("any({} > limit)", most), "limit > 0.75", "any(S[m] > 6)",
                              "m.start % 3 == 1", fmt::format("any(not ({} <= limit))", most),
                              "any(x > limit)", fmt::format("max({}, axis = 0) > limit", most),
                              fmt::format("all({} > limit)", most),
                              fmt::format("any({} > limit) or M > 200", most)});
  }

  std::string Value() {
    return Pick<std::string>({"x", "x * 2.0", "-x", "x + limit", "min(x, limit)"});
  }
  std::string Row() { return Reduced(Pick<std::string>({"sum", "max", "min"}), "x"); }

  void Multiply(const std::string& name, const std::string& indent) {
    Say(indent, fmt::format("var {}: f32[64, 64] = 0", name));
    Say(indent, fmt::format("for k in tiles(K, {}) {{", Pick<int>({32, 64})));
    Say(indent + "  ", name + " += A[m, k] @ W[0..64, k].T");
    Say(indent, "}");
  }

  // What an arm does beside its stores.
  void More(const std::string& indent, bool unlikely) {
    switch (rng_.Below(unlikely ? 5 : 12)) {
      case 0: return Say(indent, "atomic_add(count[0], 1)");
      case 1:
        Say(indent, fmt::format("if {} {{", Condition()));
        Say(indent + "  ", fmt::format("{} = {}", Sums(), Row()));
        return Say(indent, "}");
      case 2:
        if (!unlikely) return;
        Say(indent, fmt::format("if unlikely({}) {{", Condition()));
        Say(indent + "  ", fmt::format("{} = {}", Place(), Value()));
        return Say(indent, "}");
      case 3:
        if (!IsRow()) return;
        Say(indent, "for j in 0..3 {");
        Say(indent + "  ", fmt::format("{} = {} + (j as f32)", Sums(), Row()));
        return Say(indent, "}");
      default: return;
    }
  }

  void Branch(const std::string& indent, bool sums) {
    const std::string inside = indent + "  ";
    Say(indent, fmt::format("if {}({}) {{", "unlikely", Condition()));
    if (products_ && rng_.Chance(50)) {
      Multiply("again", inside);
      Say(inside, fmt::format("{} = again", Place()));
    } else if (rng_.Chance(10)) {
      Say(inside, fmt::format("{} = x[{}0..32]", Place("0..32"), IsRow() ? "" : ":, "));
    } else {
      Say(inside, fmt::format("{} = {}", Place(), Value()));
    }
    if (sums) Say(inside, fmt::format("{} = {}", Sums(), Row()));
    More(inside, true);
    if (rng_.Chance(75)) {
      Say(indent, "} else {");
      Say(inside, fmt::format("{} = {}", Place(), products_ ? "s" : Value()));
      if (sums && rng_.Chance(60)) Say(inside, fmt::format("{} = {}", Sums(), Row()));
      More(inside, false);
    }
    Say(indent, "}");
  }

  void Body(const std::string& indent) {
    const std::string tile = fmt::format("X[{}, {}, m, 0..64]", b_, h_);
    Say(indent,
        fmt::format("var x = {}", rng_.Chance(20) && !IsRow() ? "twice(" + tile + ")" : tile));
    if (bias_) {
      Say(indent, "if given(b0) {");
      Say(indent + "  ", IsRow() ? "x = x + b0[0..64]" : "x = x + b0[0..64][None, :]");
      Say(indent, "}");
    }
    if (products_) Multiply("s", indent);
    if (rng_.Chance(10)) {
      reads_ = true;
      Say(indent, fmt::format("x = x + {}", Place()));
    }
    if (rng_.Chance(30)) Say(indent, fmt::format("{} = {}", Place(), Value()));
    if (rng_.Chance(20)) Say(indent, fmt::format("{} = {}", Sums(), Row()));
    if (rng_.Chance(15)) Say(indent, "atomic_add(count[1], 2)");
    if (rng_.Chance(10)) Branch(indent, false);
    const bool sums = rng_.Chance(50);
    const int where = rng_.Below(10);
    if (where == 0) {
      Say(indent, "for i in 0..2 {");
      Say(indent + "  ", "x = x * 0.5 + (i as f32)");
      Branch(indent + "  ", sums);
      Say(indent, "}");
    } else if (where == 1) {
      Say(indent, "if limit < 0.9 {");
      Branch(indent + "  ", sums);
      Say(indent, "}");
    } else if (where == 2) {
      Branch(indent, sums);
      Say(indent, fmt::format("{} = {}", Sums(), Row()));
    } else if (where == 3) {
      Say(indent, "var f = 1.0");
      Say(indent, fmt::format("if unlikely({}) {{", Condition()));
      Say(indent + "  ", "f = 0.5");
      Say(indent, "}");
      Say(indent, fmt::format("{} = x * f", Place()));
    } else {
      Branch(indent, sums);
    }
  }

  int rows_ = 8;
  bool products_ = false, batch_ = false, heads_ = false, bias_ = false, reads_ = false;
  std::string b_, h_;
};

}  // namespace

TileProgram GenerateUnlikely(uint64_t seed) { return UnlikelyMaker(seed).Run(); }

}  // namespace tilec::fuzz
