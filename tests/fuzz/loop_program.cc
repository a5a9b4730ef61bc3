// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/loop_program.h"

#include <fmt/format.h>

#include <array>

#include "tests/fuzz/tile_expr.h"

namespace tilec::fuzz {
namespace {

class LoopMaker {
 public:
  LoopMaker(uint64_t seed, bool pins)
      : rng_(seed * 2 + 1), pin_rng_(seed * 7 + 3), move_rng_(seed * 11 + 5), pins_(pins) {
    program_.seed = seed;
  }

  TileProgram Run() {
    type_ = rng_.Chance(70) ? "bf16" : "f16";
    bm_ = Pick<int64_t>({64, 64, 128, 128, 32, 96});
    bk_ = Pick<int64_t>({16, 32, 32, 48, 64});
    d_ = Pick<int64_t>({32, 64, 64, 128});
    Loads();
    const int products = 1 + rng_.Below(4);
    for (int i = 0; i < products; ++i) Product();
    if (rng_.Chance(60)) Row();
    if (rng_.Chance(25)) Older();
    Print();
    Extents();
    return std::move(program_);
  }

 private:
  template <typename T>
  T Pick(std::vector<T> from) {
    return from[static_cast<size_t>(rng_.Below(static_cast<int>(from.size())))];
  }
  void Say(std::string line) { body_.push_back(std::move(line)); }
  std::string Fresh(const char* stem) { return fmt::format("{}{}", stem, next_++); }

  // The range, now and then the same many positions somewhere else.
  std::string Moved(const char* range) {
    if (!move_rng_.Chance(15)) return range;
    const char* sign = move_rng_.Chance(50) ? "+" : "-";
    return fmt::format("{}.index {} {}", range, sign,
                       move_rng_.Below(move_rng_.Chance(70) ? 5 : 90));
  }

  void Loads() {
    const int n = 1 + rng_.Below(3);
    for (int i = 0; i < n; ++i) {
      const int kind = i == 0 ? 0 : rng_.Below(4);
      const std::string tile = fmt::format("x{}", i);
      if (kind <= 1) {
        params_ += fmt::format(", X{}: {}[L, D]", i, type_);
        Say(fmt::format("let {} = X{}[{}, :]", tile, i, Moved("k")));
        columns_.push_back(tile);
      } else if (kind == 2) {
        params_ += fmt::format(", X{}: {}[M, L]", i, type_);
        Say(fmt::format("let {} = X{}[{}, k]", tile, i, Moved("m")));
        blocks_.push_back(tile);
      } else {
        params_ += fmt::format(", X{}: f32[L]", i);
        Say(fmt::format("let {} = X{}[{}]", tile, i, Moved("k")));
        vectors_.push_back(tile);
      }
    }
  }

  // An f32 tile [BM, BK].
  std::string Square() {
    if (!squares_.empty() && rng_.Chance(45)) return Chain(Pick(squares_));
    if (!blocks_.empty() && rng_.Chance(50)) return Chain(Pick(blocks_) + " as f32");
    const std::string s = Fresh("s");
    Say(fmt::format("let {} = (q @ {}.T) * {}", s, Pick(columns_), d_ > 64 ? "0.02" : "0.05"));
    uses_q_ = true;
    return Chain(s);
  }

  // A few elementwise ops behind it.
  std::string Chain(std::string s) {
    const int n = rng_.Below(4);
    for (int i = 0; i < n; ++i) {
      const std::string next = Fresh("s");
      switch (rng_.Below(7)) {
        case 0: Say(fmt::format("let {} = exp2(min({}, 1.0))", next, s)); break;
        case 1:
          Say(fmt::format("let {} = select({}, {}, {})", next, Mask(), s,
                          Pick<std::string>({"0.0", "-1.0"})));
          break;
        case 2: Say(fmt::format("let {} = max({}, -0.5)", next, s)); break;
        case 3: {
          const std::string square = Fresh("s");
          Say(fmt::format("let {} = ({}) * ({})", square, s, s));
          Say(fmt::format("let {} = {} * 0.25", next, square));
          break;
        }
        case 4:
          if (vectors_.empty())
            Say(fmt::format("let {} = ({}) + 0.125", next, s));
          else
            Say(fmt::format("let {} = ({}) + {}[None, :]", next, s, Pick(vectors_)));
          break;
        case 5: {
          const std::string row = Fresh("r");
          Say(fmt::format("let {} = max({}, axis = 1)", row, s));
          rows_.push_back(row);
          Say(fmt::format("let {} = ({}) - {}[:, None]", next, s, row));
          break;
        }
        default:
          if (rows_.empty())
            Say(fmt::format("let {} = abs({})", next, s));
          else
            Say(fmt::format("let {} = ({}) * {}[:, None]", next, s, Clamped(Pick(rows_))));
          break;
      }
      s = next;
    }
    const std::string out = Fresh("s");
    Say(fmt::format("let {} = min(max({}, -2.0), 2.0)", out, s));
    squares_.push_back(out);
    return out;
  }
  std::string Clamped(const std::string& row) {
    return fmt::format("min(max({}, -1.0), 1.0)", row);
  }
  std::string Mask() {
    return Pick<std::string>({"k.index[None, :] < L", "k.index[None, :] <= m.index[:, None]",
                              "k.index[None, :] + 5 > m.index[:, None]",
                              "k.index[None, :] < L and k.index[None, :] <= m.index[:, None] + 7"});
  }

  // An accumulator [BM, D], updated.
  void Product() {
    std::string left;
    if (!blocks_.empty() && rng_.Chance(30))
      left = Pick(blocks_);
    else
      left = fmt::format("({} as {})", Square(), type_);
    const std::string acc = fmt::format("acc{}", accs_);
    const bool again = accs_ > 0 && rng_.Chance(30);
    const std::string target = again ? fmt::format("acc{}", rng_.Below(accs_)) : acc;
    if (!again) {
      ++accs_;
      vars_ += fmt::format("    var {}: f32[BM, D] = {}\n", acc, rng_.Chance(75) ? "0" : "0.5");
    }
    const std::string product = fmt::format("{} @ {}", left, Pick(columns_));
    switch (rows_.empty() ? rng_.Below(2) : rng_.Below(3)) {
      case 0: Say(fmt::format("{} += {}", target, product)); break;
      case 1: Say(fmt::format("{} = {} * 0.5 + {}", target, target, product)); break;
      default:
        Say(fmt::format("{} = {} * {}[:, None] + {}", target, target, Clamped(Pick(rows_)),
                        product));
        break;
    }
  }

  // A row [BM], carried.
  void Row() {
    const std::string s = squares_.empty() ? Square() : Pick(squares_);
    const std::string row = fmt::format("row{}", rows_out_++);
    vars_ += fmt::format("    var {}: f32[BM] = {}\n", row, Pick<std::string>({"0", "1", "-1"}));
    if (rng_.Chance(50)) {
      const std::string sum = Fresh("r"), half = Fresh("r");
      Say(fmt::format("let {} = sum({}, axis = 1)", sum, s));
      Say(fmt::format("let {} = {} * 0.5", half, row));
      Say(fmt::format("{} = {} + {}", row, half, Clamped(sum)));
    } else {
      Say(fmt::format("{} = max({}, max({}, axis = 1))", row, row, s));
    }
  }

  // What another row was an iteration ago.
  void Older() {
    if (rows_out_ == 0) return;
    const std::string of = fmt::format("row{}", rng_.Below(rows_out_));
    const std::string row = fmt::format("row{}", rows_out_++);
    vars_ += fmt::format("    var {}: f32[BM] = 2\n", row);
    body_.insert(
        body_.begin() + static_cast<std::ptrdiff_t>(rng_.Below(static_cast<int>(body_.size()))),
        fmt::format("{} = {} * 0.25", row, of));
  }

  std::string Pin() {
    if (!pins_ || !pin_rng_.Chance(30)) return "";
    if (pin_rng_.Chance(60)) return fmt::format("      #[stage = {}]\n", pin_rng_.Below(3));
    return fmt::format("      #[depth = {}]\n", 1 + pin_rng_.Below(3));
  }

  void Print() {
    std::string& t = program_.text;
    t = fmt::format("kernel program({}{}", uses_q_ ? fmt::format("Q: {}[M, D]", type_) : "",
                    uses_q_ ? params_ : params_.substr(2));
    for (int i = 0; i < accs_; ++i) t += fmt::format(", O{}: out f32[M, D]", i);
    for (int i = 0; i < rows_out_; ++i) t += fmt::format(", P{}: out f32[M]", i);
    t += fmt::format(
        ")\n  where D in {{{}}}\n{{\n  tune BM = {} in {{{}}}\n  tune BK = {} in {{{}}}\n", d_, bm_,
        bm_, bk_, bk_);
    t += "  parallel m in tiles(M, BM) {\n";
    if (uses_q_) t += "    let q = Q[m, :]\n";
    t += vars_ + "    for k in tiles(L, BK) {\n";
    for (const std::string& line : body_) t += Pin() + "      " + line + "\n";
    t += "    }\n";
    for (int i = 0; i < accs_; ++i) t += fmt::format("    O{}[m, :] = acc{}\n", i, i);
    for (int i = 0; i < rows_out_; ++i) t += fmt::format("    P{}[m] = row{}\n", i, i);
    t += "  }\n}\n";
    program_.kernel = "program";
  }

  void Extents() {
    const int64_t trips = Pick<int64_t>({0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 9});
    int64_t l = trips * bk_;
    if (rng_.Chance(50) && trips > 0) l -= rng_.Chance(70) ? 8 : rng_.Below(static_cast<int>(bk_));
    const int64_t m = Pick<int64_t>({bm_, bm_, bm_ + 8, bm_ - 3, 2 * bm_});
    program_.values.emplace_back("M", m);
    program_.values.emplace_back("L", l);
    program_.values.emplace_back("D", d_);
  }

  Rng rng_, pin_rng_, move_rng_;
  bool pins_;
  TileProgram program_;
  const char* type_ = "bf16";
  int64_t bm_ = 64, bk_ = 32, d_ = 64;
  std::string params_, vars_;
  std::vector<std::string> body_, columns_, blocks_, vectors_, squares_, rows_;
  int next_ = 0, accs_ = 0, rows_out_ = 0;
  bool uses_q_ = false;
};

}  // namespace

TileProgram GenerateLoop(uint64_t seed, bool pins) { return LoopMaker(seed, pins).Run(); }

}  // namespace tilec::fuzz
