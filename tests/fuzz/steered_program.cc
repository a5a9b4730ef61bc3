// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/steered_program.h"

#include <fmt/format.h>

#include "tests/fuzz/maker.h"

namespace tilec::fuzz {
namespace {

class SteeredMaker : KernelMaker {
 public:
  explicit SteeredMaker(uint64_t seed) : KernelMaker(seed, seed * 29 + 11) {}

  TileProgram Run() {
    const std::string facts = rng_.Chance(12) ? " strided(any)" : "";
    gathers_ = rng_.Chance(12);
    Say("    ", "var acc: f32[64, 64] = 0");
    if (gathers_) Say("    ", "let rows = abs(R[m]) % (M as i32)");
    const int parts = 1 + rng_.Below(2);
    for (int part = 0; part < parts; ++part) Steered(part, 1 + rng_.Below(2), "    ");
    program_.text = fmt::format(
        "kernel program(A: f16[H, M, K]{}, B: f16[H, N, K], S: i32[H, G], R: i32[M], V: f32[M, "
        "64], "
        "C: out f32[M, N], limit: i32, most: f32)\n"
        "  where H >= 1, G >= 1, M >= 1\n{{\n"
        "  parallel m in tiles(M, 64), n in tiles(N, 64) {{\n{}    C[m, n] = acc\n  }}\n}}\n",
        facts, body_);
    program_.kernel = "program";
    program_.values.emplace_back("H", int64_t{1} + rng_.Below(3));
    program_.values.emplace_back("G", int64_t{1} + rng_.Below(2));
    program_.values.emplace_back("M", Pick<int64_t>({64, 70, 128, 150}));
    program_.values.emplace_back("N", Pick<int64_t>({64, 40, 72}));
    program_.values.emplace_back("K", Pick<int64_t>({64, 96, 136, 192, 70, 131}));
    program_.values.emplace_back("limit", int64_t{rng_.Below(4)});
    program_.values.emplace_back("most", Pick<double>({0.5, 4.0, 1000.0}));
    return std::move(program_);
  }

 private:
  std::string Name(const char* what) { return fmt::format("{}{}", what, ++names_); }

  // Something around product loops, whose head or bound is not known beforehand.
  void Steered(int part, int depth, const std::string& indent) {
    if (depth == 0) return Product(indent);
    const std::string inside = indent + "  ";
    switch (rng_.Below(5)) {
      case 0: {  // until the largest element is small, or large
        const std::string i = Name("i"), size = Name("size");
        Say(indent, fmt::format("var {} = 0", i));
        Say(indent, fmt::format("var {} = 0.0", size));
        Say(indent, fmt::format("while {} < most and {} < limit + 1 {{", size, i));
        Steered(part, depth - 1, inside);
        Say(inside, fmt::format("{} = max(max(abs(acc), axis = 1), axis = 0)", size));
        Say(inside, fmt::format("{} += 1", i));
        Say(inside, "acc = acc * 0.5");
        return Say(indent, "}");
      }
      case 1: {  // by a chain of loaded scalars
        const std::string at = Name("at"), left = Name("left");
        Say(indent, fmt::format("var {} = 0", at));
        Say(indent, fmt::format("var {} = limit", left));
        Say(indent, fmt::format("while {} > 0 {{", left));
        head_ = at;
        Steered(part, depth - 1, inside);
        head_ = "0";
        Say(inside, fmt::format("{0} = abs(S[{0}, 0]) % (H as i32)", at));
        Say(inside, fmt::format("{} -= 1", left));
        return Say(indent, "}");
      }
      case 2: {  // an early exit
        const std::string go = Name("go"), i = Name("i");
        Say(indent, fmt::format("var {} = true", go));
        Say(indent, fmt::format("var {} = 0", i));
        Say(indent, fmt::format("while {} and {} < H as i32 {{", go, i));
        head_ = i;
        Steered(part, depth - 1, inside);
        head_ = "0";
        Say(inside, fmt::format("{} = sum(sum(acc, axis = 1), axis = 0) < most", go));
        Say(inside, fmt::format("{} += 1", i));
        return Say(indent, "}");
      }
      case 3: {  // a branch on what a tile holds
        const std::string s = Name("s");
        Say(indent, fmt::format("let {} = sum(sum(V[m, :], axis = 1), axis = 0)", s));
        Say(indent, fmt::format("if {} > 0.0 {{", s));
        Steered(part, depth - 1, inside);
        if (rng_.Chance(40)) {
          Say(indent, "} else {");
          Say(inside, "acc = acc * 0.5 + 1.0");
        }
        return Say(indent, "}");
      }
      default: {  // as many heads as a tile says
        const std::string h = Name("h"), upto = Name("upto");
        Say(indent,
            fmt::format("let {} = min(argmax(max(V[m, :], axis = 0), axis = 0) as i32, H as i32)",
                        upto));
        Say(indent, fmt::format("for {} in 0..{} {{", h, upto));
        head_ = h;
        Steered(part, depth - 1, inside);
        head_ = "0";
        return Say(indent, "}");
      }
    }
  }

  std::string Bounds(const std::string& indent) {
    switch (rng_.Below(6)) {
      case 0: return "0..m.start";
      case 1: {
        const std::string upto = Name("upto");
        Say(indent, fmt::format("let {} = min(max(S[{}, 0], 0), K as i32)", upto, head_));
        return "0.." + upto;
      }
      case 2: {
        const std::string from = Name("from");
        Say(indent, fmt::format("let {} = min(max(S[{}, 0], 0), 130)", from, head_));
        return from + "..K";
      }
      case 3: {  // from a tile
        const std::string to = Name("to");
        Say(indent, fmt::format("let {} = min(max(max(R[m], axis = 0), 0), K as i32)", to));
        return "0.." + to;
      }
      default: return "K";
    }
  }

  void Product(const std::string& indent) {
    Say(indent, fmt::format("for k in tiles({}, {}) {{", Bounds(indent), Pick<int>({32, 64, 64})));
    const std::string inside = indent + "  ";
    const std::string left = gathers_ ? "rows" : "m";
    const std::string product = fmt::format("acc += A[{0}, {1}, k] @ B[{0}, n, k].T", head_, left);
    if (rng_.Chance(15)) {
      Say(inside, "if k.start % 96 == 0 {");
      Say(inside + "  ", product);
      Say(inside, "}");
    } else {
      Say(inside, product);
    }
    Say(indent, "}");
  }

  std::string head_ = "0";
  int names_ = 0;
  bool gathers_ = false;
};

}  // namespace

TileProgram GenerateSteered(uint64_t seed) { return SteeredMaker(seed).Run(); }

}  // namespace tilec::fuzz
