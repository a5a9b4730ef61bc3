// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/tile_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tests/fuzz/tile_expr.h"

namespace tilec::fuzz {

namespace {

using ir::DType;

class Program {
 public:
  Program(uint64_t seed, const GenOptions& options)
      : o_(options), rng_(seed), exprs_(options, rng_, pool_, signature_) {
    program_.seed = seed;
    program_.kernel = "program";
  }

  TileProgram Make() {
    Dims();
    Body();
    Finish();
    return std::move(program_);
  }

 private:
  bool Chance(int percent) { return rng_.Chance(percent); }
  int Below(int n) { return rng_.Below(n); }
  void Line(const std::string& text) {
    body_ += std::string(static_cast<size_t>(2 * depth_), ' ') + text + "\n";
  }
  void Value(const std::string& name, int64_t value) { program_.values.emplace_back(name, value); }

  // A tile size: seldom 1, often a multiple of 8, sometimes odd.
  int Size() {
    const int roll = Below(10);
    if (roll == 0) return 1 + Below(7);
    if (roll < 3) return std::min(o_.max_tile, 3 + Below(o_.max_tile));
    return std::min(o_.max_tile, 8 * (1 + Below(o_.max_tile / 8)));
  }
  // The extent of a dim that is cut into pieces: whole, ragged, shorter than one piece.
  int Extent(int size, int pieces) {
    if (Chance(30)) return size * pieces;
    return std::max(1, size * (pieces - 1) + 1 + Below(size));
  }

  void Dims() {
    const bool two = Chance(60);
    const int pieces = 1 + Below(std::max(1, two ? o_.max_instances / 2 : o_.max_instances));
    m_ = AddRange("m", "M", "BM", Size(), pieces);
    heads_ = fmt::format("m in tiles(M, BM)");
    if (two) {
      AddRange("n", "N", "BN", Size(), 1 + Below(std::max(1, o_.max_instances / pieces)));
      heads_ += ", n in tiles(N, BN)";
    }
    grid_ = pool_.axes.size();
    if (Chance(15)) {  // one more dim of the grid, by position
      heads_ += ", b in 0..B";
      batch_ = 1 + Below(2);
      Value("B", batch_);
      pool_.batch = true;
      pool_.Add({"b", DType::kI64, {}, 4.0});
    }
    if (!two || Chance(40)) {  // a dim that is taken whole
      const int extent = Chance(60) ? 8 * (1 + Below(std::max(1, o_.max_tile / 8))) : 1 + Below(40);
      pool_.axes.push_back({":", "D", "D", std::min(extent, o_.max_tile)});
      Value("D", pool_.axes.back().size);
      facts_.push_back(fmt::format("D in {{{}}}", pool_.axes.back().size));
    }
    if (Chance(40)) {
      signature_.scalars.push_back("s: f32");
      program_.values.emplace_back("s", 0.25 * (Below(9) - 4));
      pool_.Add({"s", DType::kF32, {}, 1.0});
    }
    if (Chance(25)) {
      signature_.scalars.push_back("c: i32");
      Value("c", Below(9) - 4);
      pool_.Add({"c", DType::kI32, {}, 4.0});
    }
    if (Chance(20)) {
      signature_.scalars.push_back("flag: const bool = false");
      program_.values.emplace_back("flag", Chance(50));
      flag_ = true;
    }
  }

  // A range variable over a dim of its own, cut into `pieces`.
  size_t AddRange(const std::string& var, const std::string& dim, const std::string& tune, int size,
                  int pieces) {
    pool_.axes.push_back({var, dim, tune, size});
    tunes_.push_back(fmt::format("tune {} = {} in {{{}}}", tune, size, size));
    Value(dim, Extent(size, pieces));
    return pool_.axes.size() - 1;
  }

  // ---- statements ------------------------------------------------------------------------------

  void Body() {
    depth_ = 2;
    const int n = o_.min_statements + Below(o_.max_statements - o_.min_statements + 1);
    const int loop_at = Chance(o_.loop_percent) ? Below(n) : -1;
    for (int i = 0; i < n; ++i) {
      if (i == loop_at)
        TileLoop(0);
      else
        Statement(0);
    }
    const int stores = 1 + Below(2);
    for (int i = 0; i < stores; ++i) Output();
    if (o_.atomics && Chance(15)) Atomic();
  }

  void Statement(int nesting) {
    const bool inner = nesting < o_.max_nesting;
    switch (Below(inner ? 12 : 6)) {
      case 6: return TileLoop(nesting);
      case 7: return CountedLoop(nesting);
      case 8: return o_.control ? While(nesting) : Let();
      case 9: return o_.control ? If(nesting) : Let();
      case 10: return nesting == 0 && Chance(50) ? Inout() : Reassign();
      case 11:
      case 5: return Reassign();
      case 4: return o_.dots && Chance(60) ? Dot() : Let();
      default: return Let();
    }
  }

  std::string Fresh(const char* letter) { return fmt::format("{}{}", letter, next_++); }

  void Let() {
    const Shape shape = exprs_.AnyShape();
    const DType d = exprs_.AnyDType();
    const std::string name = Fresh("v");
    const Text e = exprs_.Make(d, shape, o_.expr_depth);
    Line(fmt::format("let {} = {}", name, e.text));
    pool_.Add({name, d, shape, e.magnitude});
  }

  // A variable, filled with a literal or an expression.
  size_t Var(DType d, const Shape& shape, double cap) {
    const std::string name = Fresh("w");
    const std::string type = exprs_.TypeText(d, shape);
    if (Chance(60)) {
      Line(fmt::format("var {}: {} = {}", name, type, exprs_.Literal(d, 2).text));
    } else {
      Line(fmt::format("var {}: {} = {}", name, type,
                       exprs_.Clamped(exprs_.Make(d, shape, 1), d, cap)));
    }
    return pool_.Add({name, d, shape, cap, true});
  }

  // Assigns one of the variables that are in scope; what is assigned stays below its magnitude.
  void Reassign() {
    std::vector<size_t> vars;
    for (size_t i = 0; i < pool_.values.size(); ++i)
      if (pool_.values[i].variable) vars.push_back(i);
    if (vars.empty()) return Let();
    Assign(vars[static_cast<size_t>(Below(static_cast<int>(vars.size())))]);
  }

  void Assign(size_t at) {
    const Named w = pool_.values[at];
    if (w.dtype == DType::kBool)
      return Line(fmt::format("{} = {} {} {}", w.name, w.name, Chance(50) ? "or" : "and",
                              exprs_.Make(w.dtype, w.shape, 1).text));
    const Text e = exprs_.Make(w.dtype, w.shape, 2);
    if (!ir::IsFloat(w.dtype)) {
      static const char* kOps[] = {"=", "+=", "-=", "*="};
      return Line(fmt::format("{} {} {}", w.name, kOps[Below(4)], e.text));
    }
    const Text sum =
        Chance(50)
            ? Text{fmt::format("({} * 0.5 + {})", w.name, e.text), w.magnitude / 2 + e.magnitude}
            : Text{fmt::format("max({}, {})", w.name, e.text), std::max(w.magnitude, e.magnitude)};
    Line(fmt::format("{} = {}", w.name, exprs_.Clamped(sum, w.dtype, w.magnitude)));
  }

  // `for k in tiles(K, BK)`, with something carried: sums, products, running values.
  void TileLoop(int nesting) {
    const std::string tag = loops_ == 0 ? "" : std::to_string(loops_);
    ++loops_;
    const int size = o_.dots && Chance(50) ? std::min(o_.max_tile, 16 * (1 + Below(3))) : Size();
    const int trips = Below(8) == 0 ? 1 : 1 + Below(o_.max_trips);
    const int extent = Extent(size, trips);
    // The sums of the turns, declared outside.
    const int carried = 1 + Below(2);
    std::vector<size_t> vars;
    for (int i = 0; i < carried; ++i) {
      const DType d = exprs_.AnyDType();
      vars.push_back(Var(d, exprs_.AnyShape(), exprs_.Cap(d)));
    }
    std::optional<std::pair<Named, DType>> acc;  // of a product, and its operands' dtype
    if (o_.dots && pool_.axes.size() > 0 && Chance(55)) {
      const DType in = exprs_.DotDType();
      const Shape shape = exprs_.DotShape();
      const DType out = ir::Info(in).accumulator;
      const std::string name = Fresh("acc");
      Line(fmt::format("var {}: {} = 0", name, exprs_.TypeText(out, shape)));
      const double most = ir::IsFloat(out) ? 4.0 * trips * size : 0;
      acc = {{name, out, shape, std::max(most, 1.0), false}, in};
    }
    tunes_.push_back(fmt::format("tune BK{} = {} in {{{}}}", tag, size, size));
    Value("K" + tag, extent);
    const size_t before = pool_.values.size();
    std::string range = fmt::format("K{}", tag);
    if (Chance(10)) range = fmt::format("{}..K{}", Below(extent + 1), tag);
    Line(fmt::format("for k{} in tiles({}, BK{}) {{", tag, range, tag));
    ++depth_;
    pool_.axes.push_back({"k" + tag, "K" + tag, "BK" + tag, size});
    const size_t axis = pool_.axes.size() - 1;
    if (acc) {
      const Shape& s = acc->first.shape;
      Line(fmt::format("{} += {}", acc->first.name, exprs_.Product(acc->second, s, axis)));
    }
    for (int i = Below(3); i > 0; --i) Statement(nesting + 1);
    for (size_t v : vars) Assign(v);
    if (o_.stores_in_loops && grid_ == 1 && !pool_.batch && nesting == 0 && Chance(25))
      Store({m_, axis});
    pool_.axes.pop_back();
    --depth_;
    Line("}");
    pool_.values.resize(before);
    if (acc) pool_.Add(acc->first);
  }

  void CountedLoop(int nesting) {
    const std::string var = Fresh("i");
    const size_t carried = Var(exprs_.AnyDType(), exprs_.AnyShape(), 64);
    const size_t before = pool_.values.size();
    const int lo = Below(3), trips = 1 + Below(o_.max_trips);
    const int step = Chance(25) ? 2 : 1;
    Line(fmt::format("for {} in {}..{}{} {{", var, lo, lo + trips * step,
                     step > 1 ? fmt::format(" step {}", step) : ""));
    ++depth_;
    pool_.Add({var, DType::kI64, {}, 16.0});
    for (int i = Below(2); i > 0; --i) Statement(nesting + 1);
    Assign(carried);
    --depth_;
    Line("}");
    pool_.values.resize(before);
  }

  void While(int nesting) {
    const std::string count = Fresh("t");
    const size_t carried = Var(exprs_.AnyDType(), exprs_.AnyShape(), 64);
    Line(fmt::format("var {} = 0", count));
    pool_.Add({count, DType::kI32, {}, 16.0});
    const size_t before = pool_.values.size();
    std::string condition = fmt::format("{} < {}", count, Below(4));
    if (Chance(40)) condition += " and " + ScalarCondition();
    Line(fmt::format("while {} {{", condition));
    ++depth_;
    for (int i = Below(2); i > 0; --i) Statement(nesting + 1);
    Assign(carried);
    Line(fmt::format("{} += 1", count));
    --depth_;
    Line("}");
    pool_.values.resize(before);
  }

  std::string ScalarCondition() {
    if (flag_ && Chance(30)) return "flag";
    if (Chance(30)) return fmt::format("(m.start / BM) % 2 == {}", Below(2));
    return exprs_.Make(DType::kBool, {}, 2).text;
  }

  void If(int nesting) {
    const size_t carried = Var(exprs_.AnyDType(), exprs_.AnyShape(), 64);
    const size_t before = pool_.values.size();
    Line(fmt::format("if {} {{", ScalarCondition()));
    for (int arm = 0; arm < 2; ++arm) {
      ++depth_;
      for (int i = Below(2); i > 0; --i) Statement(nesting + 1);
      Assign(carried);
      --depth_;
      pool_.values.resize(before);
      if (arm == 0 && Chance(40)) break;
      if (arm == 0) Line("} else {");
    }
    Line("}");
  }

  // A product outside of loops.
  void Dot() {
    const DType in = exprs_.DotDType();
    const DType out = ir::Info(in).accumulator;
    const Shape shape = exprs_.DotShape();
    const size_t inner = static_cast<size_t>(Below(static_cast<int>(pool_.axes.size())));
    const std::string name = Fresh("p");
    Line(fmt::format("let {} = {}", name, exprs_.Product(in, shape, inner)));
    pool_.Add({name, out, shape, 4.0 * pool_.axes[inner].size});
  }

  // ---- what a program leaves behind
  // --------------------------------------------------------------

  std::string OwnIndex(const std::vector<size_t>& axes) const {
    std::string out = pool_.batch ? "b, " : "";
    for (size_t i = 0; i < axes.size(); ++i) out += (i ? ", " : "") + pool_.axes[axes[i]].var;
    return out;
  }
  std::string OwnDims(const std::vector<size_t>& axes) const {
    std::string out = pool_.batch ? "B, " : "";
    for (size_t i = 0; i < axes.size(); ++i) out += (i ? ", " : "") + pool_.axes[axes[i]].dim;
    return out;
  }

  void Store(const std::vector<size_t>& axes) {
    const DType d = exprs_.StoredDType();
    const std::string name = fmt::format("Y{}", signature_.outputs++);
    signature_.tensors.push_back(
        fmt::format("{}: out {}[{}]", name, ir::Spelling(d), OwnDims(axes)));
    Line(fmt::format("{}[{}] = {}", name, OwnIndex(axes),
                     exprs_.Make(d, Shape(axes.begin(), axes.end()), 2).text));
  }

  // Every grid dim takes part, and perhaps the dim that is taken whole.
  void Output() {
    std::vector<size_t> axes;
    for (size_t i = 0; i < grid_; ++i) axes.push_back(i);
    if (axes.size() == 1 && pool_.axes.size() > grid_ && Chance(60)) axes.push_back(grid_);
    if (axes.size() == 2 && Chance(30)) std::swap(axes[0], axes[1]);
    Store(axes);
  }

  void Inout() {
    std::vector<size_t> axes;
    for (size_t i = 0; i < grid_; ++i) axes.push_back(i);
    const DType d = exprs_.AnyNumber();
    const std::string name = fmt::format("Z{}", signature_.outputs++);
    signature_.tensors.push_back(
        fmt::format("{}: inout {}[{}]", name, ir::Spelling(d), OwnDims(axes)));
    const Shape shape(axes.begin(), axes.end());
    Line(fmt::format("{}[{}] {} {}", name, OwnIndex(axes), Chance(50) ? "+=" : "=",
                     exprs_.Make(d, shape, 2).text));
    const std::string read = Fresh("v");
    Line(fmt::format("let {} = {}[{}]", read, name, OwnIndex(axes)));
    pool_.Add({read, d, shape, exprs_.Cap(d) + 1});
  }

  void Atomic() {
    static constexpr DType kInts[] = {DType::kI32, DType::kU32, DType::kI64, DType::kU64};
    const bool sum = Chance(70);
    const DType d = sum && Chance(50) ? DType::kF32 : kInts[Below(o_.wide ? 4 : 2)];
    static const char* kKinds[] = {"max", "min", "and", "or", "xor"};
    const size_t axis = static_cast<size_t>(Below(static_cast<int>(grid_)));
    const std::string name = fmt::format("S{}", signature_.outputs++);
    signature_.tensors.push_back(
        fmt::format("{}: inout {}[{}]", name, ir::Spelling(d), pool_.axes[axis].dim));
    Line(fmt::format("atomic_{}({}[{}], {})", sum ? "add" : kKinds[Below(5)], name,
                     pool_.axes[axis].var, exprs_.Make(d, {axis}, 2).text));
  }

  // Dims that no tensor has: those that a range needs get a tensor, others go.
  void BindDims() {
    std::string all;
    for (const std::string& t : signature_.tensors) all += t + " ";
    auto bound = [&](const std::string& dim) {
      for (const char* before : {"[", " "})
        for (const char* after : {",", "]"})
          if (all.find(before + dim + after) != std::string::npos) return true;
      return false;
    };
    std::erase_if(program_.values, [&](const auto& value) {
      const std::string& name = value.first;
      if (std::string("BDKMN").find(name[0]) == std::string::npos || bound(name)) return false;
      if (name == "D" && body_.find("[D") == std::string::npos &&
          body_.find(", D]") == std::string::npos) {
        facts_.clear();
        return true;
      }
      signature_.tensors.push_back(fmt::format("X{}: f32[{}]", signature_.tensors.size(), name));
      return false;
    });
  }

  void Finish() {
    BindDims();
    std::string head = "kernel program(";
    std::vector<std::string> params = signature_.tensors;
    params.insert(params.end(), signature_.scalars.begin(), signature_.scalars.end());
    head += fmt::format("{}", fmt::join(params, ",\n               "));
    head += ")";
    if (!facts_.empty())
      head += fmt::format("\n  where {}\n", fmt::join(facts_, ", "));
    else
      head += " ";
    for (const auto& [dim, value] : signature_.dims) Value(dim, value);
    std::string text = fmt::format("// Seed {}.\n{}", program_.seed, signature_.functions);
    text += head + "{\n";
    for (const std::string& tune : tunes_) text += "  " + tune + "\n";
    text += "  parallel " + heads_ + " {\n" + body_ + "  }\n}\n\n";
    std::vector<std::string> call;
    for (const auto& [name, value] : program_.values)
      call.push_back(
          fmt::format("{} = {}", name, std::visit([](auto v) { return ToText(v); }, value)));
    text += fmt::format("test \"seed {}\" {{ program({}, seed = {}) }}\n", program_.seed,
                        fmt::join(call, ", "), program_.seed);
    program_.text = std::move(text);
  }
  static std::string ToText(bool v) { return v ? "true" : "false"; }
  static std::string ToText(int64_t v) { return std::to_string(v); }
  static std::string ToText(double v) { return fmt::format("{:.2f}", v); }

  const GenOptions o_;
  Rng rng_;
  Pool pool_;
  Signature signature_;
  Exprs exprs_;
  TileProgram program_;
  std::string body_, heads_;
  std::vector<std::string> tunes_, facts_;
  size_t m_ = 0, grid_ = 0;
  int batch_ = 0, depth_ = 0, next_ = 0, loops_ = 0;
  bool flag_ = false;
};

}  // namespace

TileProgram Generate(uint64_t seed, const GenOptions& options) {
  return Program(seed, options).Make();
}

}  // namespace tilec::fuzz
