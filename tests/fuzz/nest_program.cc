// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/nest_program.h"

#include <fmt/format.h>

#include "tests/fuzz/maker.h"

namespace tilec::fuzz {
namespace {

class NestMaker : KernelMaker {
 public:
  NestMaker(uint64_t seed, bool tiles) : KernelMaker(seed, seed * 13 + 7), tiles_(tiles) {}

  TileProgram Run() {
    const int outer = 1 + rng_.Below(2);
    keeps_ = rng_.Chance(40);
    Nest(outer, "    ");
    program_.text = fmt::format(
        "kernel program({}S: i32[H, G], C: out f32[M, N], limit: i32)\n"
        "  where H >= 1, G >= 1\n{{\n"
        "  parallel m in tiles(M, 64), n in tiles(N, 64) {{\n"
        "    var acc: f32[64, 64] = 0\n{}    C[m, n] = acc\n  }}\n}}\n",
        tiles_ ? "Q: f16[H, M, 64], A: f16[H, K, 64], B: f16[H, K, N], "
               : "A: f16[H, M, K], B: f16[H, N, K], ",
        body_);
    program_.kernel = "program";
    program_.values.emplace_back("H", int64_t{1} + rng_.Below(3));
    program_.values.emplace_back("G", int64_t{1} + rng_.Below(2));
    program_.values.emplace_back("M", Pick<int64_t>({64, 70, 128, 150}));
    program_.values.emplace_back("N", Pick<int64_t>({64, 40, 72}));
    program_.values.emplace_back("K", Pick<int64_t>({64, 96, 136, 192}));
    program_.values.emplace_back("limit", int64_t{rng_.Below(4)});
    return std::move(program_);
  }

 private:
  // Loops over heads and groups, then the loop of the product.
  void Nest(int outer, const std::string& indent) {
    if (outer == 0) return Product(indent);
    const bool heads = head_.empty();
    const std::string var = heads ? "h" : "g";
    (heads ? head_ : group_) = var;
    Say(indent, fmt::format("for {} in 0..{} {{", var, heads ? "H" : "G"));
    const std::string inside = indent + "  ";
    // A tile of the loop over heads, read by all products inside of it.
    if (tiles_ && heads) Say(inside, "let q = Q[h, m, :]");
    const bool branch = rng_.Chance(45);
    if (branch) Say(inside, fmt::format("if {} {{", Condition()));
    Nest(outer - 1, branch ? inside + "  " : inside);
    if (branch && rng_.Chance(30)) {
      Say(inside, "} else {");
      Say(inside, "  acc = acc * 0.5");
    }
    if (branch) Say(inside, "}");
    if (rng_.Chance(30)) Say(inside, "acc = acc * 0.75 + 0.25");
    Say(indent, "}");
    if (heads)
      head_.clear();
    else
      group_.clear();
  }

  std::string Group() const { return group_.empty() ? "0" : group_; }

  // Of scalars that every role can compute.
  std::string Condition() {
    const std::string h = head_, g = group_.empty() ? head_ : group_;
    return Pick<std::string>({
        fmt::format("{} % 2 == 0", g),
        fmt::format("{} != limit", g),
        fmt::format("{} < limit + 1", h),
        fmt::format("S[{}, {}] > 2", h, Group()),
        "m.start <= n.end + 60",
        fmt::format("{} + 1 < H or m.start > 0", h),
    });
  }

  // Bounds of the innermost loop.
  std::string Bounds(const std::string& indent) {
    if (tiles_ && rng_.Chance(50)) return Pick<std::string>({"0..64", "0..128", "64..192"});
    switch (rng_.Below(8)) {
      case 0: return "K";
      case 1: return "0..m.start";
      case 2: return "0..m.end";
      case 3: return "m.start..K";
      case 4: return fmt::format("0..({} + 1) * 48", head_);
      case 5:
        Say(indent, fmt::format("let upto = min(max(S[{}, {}], 0), K as i32)", head_, Group()));
        return "0..upto";
      case 6:
        Say(indent, fmt::format("let from = min(max(S[{}, {}], 0), 130)", head_, Group()));
        return "from..K";
      default: return "limit * 40..K";
    }
  }

  void Product(const std::string& indent) {
    const std::string bounds = Bounds(indent);
    const std::string into = keeps_ ? "part" : "acc";
    if (keeps_) Say(indent, "var part: f32[64, 64] = 0");
    Say(indent, fmt::format("for k in tiles({}, {}) {{", bounds, Pick<int>({32, 64, 64})));
    const std::string product =
        tiles_ ? fmt::format("{0} += ((q @ A[{1}, k, :].T) as f16) @ B[{1}, k, n]", into, head_)
               : fmt::format("{} += A[{}, m, k] @ B[{}, n, k].T", into, head_, head_);
    if (rng_.Chance(12)) {
      Say(indent + "  ", fmt::format("if S[{}, {}] > 1 {{", head_, Group()));
      Say(indent + "    ", product);
      Say(indent + "  ", "}");
    } else {
      Say(indent + "  ", product);
    }
    Say(indent, "}");
    if (keeps_) Say(indent, rng_.Chance(60) ? "acc += part" : "acc = max(acc, part)");
  }

  std::string head_, group_;
  const bool tiles_;
  bool keeps_ = false;
};

}  // namespace

TileProgram GenerateNest(uint64_t seed) { return NestMaker(seed, false).Run(); }
TileProgram GenerateNestOfTiles(uint64_t seed) { return NestMaker(seed, true).Run(); }

}  // namespace tilec::fuzz
