// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/branch_program.h"

#include <fmt/format.h>

#include "tests/fuzz/maker.h"

namespace tilec::fuzz {
namespace {

class BranchMaker : KernelMaker {
 public:
  explicit BranchMaker(uint64_t seed) : KernelMaker(seed, seed * 37 + 5) {}

  TileProgram Run() {
    Say("    ", "var acc: f32[64, 64] = 0");
    Say("    ", "var top: f32[64] = 0");
    Say("    ", "var n = 0");
    const int parts = 1 + rng_.Below(2);
    for (int part = 0; part < parts; ++part) Around(rng_.Below(2), "    ");
    if (rng_.Chance(30)) Say("    ", "acc = acc * (n as f32)");
    program_.text = fmt::format(
        "kernel program(A: f16[H, M, K], B: f16[H, N, K], S: i32[H, G], V: f32[M, 64], "
        "C: out f32[M, N], D: out f32[H, M, N], limit: i32, most: f32)\n"
        "  where H >= 1, G >= 1, M >= 1\n{{\n"
        "  parallel m in tiles(M, 64), n0 in tiles(N, 64) {{\n{}    C[m, n0] = acc + top[:, None]\n"
        "  }}\n}}\n",
        body_);
    program_.kernel = "program";
    program_.values.emplace_back("H", int64_t{1} + rng_.Below(3));
    program_.values.emplace_back("G", int64_t{1} + rng_.Below(4));
    program_.values.emplace_back("M", Pick<int64_t>({64, 70, 128}));
    program_.values.emplace_back("N", Pick<int64_t>({64, 40}));
    program_.values.emplace_back("K", Pick<int64_t>({64, 96, 136, 192, 320, 520}));
    program_.values.emplace_back("limit", int64_t{rng_.Below(5)});
    program_.values.emplace_back("most", Pick<double>({0.5, 4.0, 1000.0}));
    return std::move(program_);
  }

 private:
  // What several roles can know, or only one: of a tile.
  std::string Condition(bool of_tiles) {
    switch (rng_.Below(of_tiles ? 9 : 8)) {
      case 0: return fmt::format("k.start % {} == 0", Pick<int>({64, 96, 128, 192}));
      case 1: return fmt::format("S[{}, k.start / 64] > {}", head_, Pick<int>({-3, 0, 5}));
      case 2: return fmt::format("{} < limit", head_);
      case 3: return fmt::format("n < {}", 1 + rng_.Below(4));
      case 4: return "k.start < m.start";
      case 5: return fmt::format("k.start >= {} and limit > 1", Pick<int>({64, 128}));
      case 6: return fmt::format("most > 1.0 or S[{}, 0] > n", head_);
      case 7: return "k.start + 64 < K";
      default: return "max(top, axis = 0) < most";
    }
  }

  void Around(int depth, const std::string& indent) {
    if (depth == 0) return Loop(indent);
    const std::string inside = indent + "  ";
    switch (rng_.Below(3)) {
      case 0:
        Say(indent, "for h in 0..H {");
        head_ = "h";
        break;
      case 1: Say(indent, "if limit > 1 {"); break;
      default:
        Say(indent, "n = 0");
        Say(indent, "while n < limit + 1 {");
        Loop(inside);
        Say(inside, "n += 1");
        return Say(indent, "}");
    }
    Loop(inside);
    head_ = "0";
    Say(indent, "}");
  }

  std::string Product() { return fmt::format("acc += A[{0}, m, k] @ B[{0}, n0, k].T", head_); }

  // A few statements that may stand in an arm.
  void Arm(int depth, const std::string& indent) {
    switch (rng_.Below(depth > 0 ? 9 : 8)) {
      case 0:
      case 1:
      case 2: return Say(indent, Product());
      case 3: return Say(indent, "acc = acc * 0.5");
      case 4:
        Say(indent, Product());
        return Say(indent, "top = max(top * 0.5, max(acc, axis = 1))");
      case 5: return Say(indent, "n += 1");
      case 6:
        Say(indent, Product());
        return Say(indent, fmt::format("acc += A[{0}, m, k] @ B[{0}, n0, k].T", "0"));
      case 7: return Say(indent, "acc += V[m, :] * 0.25");
      default: return Branch(depth - 1, indent);
    }
  }
  void Branch(int depth, const std::string& indent) {
    Say(indent, fmt::format("if {} {{", Condition(rng_.Chance(40))));
    Arm(depth, indent + "  ");
    if (rng_.Chance(20)) Say(indent + "  ", "n += 1");
    if (rng_.Chance(35)) {
      Say(indent, "} else {");
      Arm(depth, indent + "  ");
    }
    Say(indent, "}");
  }

  void Loop(const std::string& indent) {
    const std::string inside = indent + "  ";
    Say(indent, fmt::format("for k in tiles(K, {}) {{", Pick<int>({32, 64, 64})));
    if (rng_.Chance(25))
      Say(inside, fmt::format("let f = if {} {{ 0.5 }} else {{ 1.0 }}", Condition(false)));
    else if (rng_.Chance(25))
      Say(inside, fmt::format("let f = select({}, 0.5, 1.0)", Condition(false)));
    else
      Say(inside, "let f = 1.0");
    if (rng_.Chance(40)) Say(inside, "acc = acc * f");
    if (rng_.Chance(40)) Say(inside, Product());
    Branch(1, inside);
    if (rng_.Chance(30)) Say(inside, Product());
    if (rng_.Chance(15)) Branch(0, inside);
    if (rng_.Chance(15)) {
      Say(inside, "if n >= 1 {");
      Say(inside + "  ", fmt::format("D[{}, m, n0] = acc * f", head_));
      Say(inside, "}");
    }
    if (rng_.Chance(30)) Say(inside, "n += 1");
    Say(indent, "}");
  }

  std::string head_ = "0";
};

}  // namespace

TileProgram GenerateBranches(uint64_t seed) { return BranchMaker(seed).Run(); }

}  // namespace tilec::fuzz
