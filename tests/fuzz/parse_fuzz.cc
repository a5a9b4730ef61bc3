// Grammar-aware fuzzing of parser and formatter: parse_fuzz [--seconds=S] [--seed=N].
//
// Programs are generated from the token table along the grammar (so most parse), then damaged:
// tokens dropped, doubled, swapped, comments and newlines put in, bytes flipped. What must hold:
//  * Parse returns (no crash, no hang), and fails exactly if it reported an error;
//  * rendering every diagnostic works;
//  * what parses formats to text that parses to the same tree, keeps the number of comments, and
//    formats to itself.
//
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "language/format.h"
#include "language/parse.h"
#include "language/tokens.h"

namespace tilec::language {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : rng_(seed) {}

  std::string Program() {
    out_.clear();
    const int items = 1 + Below(4);
    for (int i = 0; i < items; ++i) Item();
    return out_;
  }

  std::string Damage(std::string text) {
    const int wounds = 1 + Below(6);
    for (int i = 0; i < wounds && !text.empty(); ++i) {
      const size_t at = rng_() % text.size();
      const size_t length = std::min<size_t>(1 + rng_() % 12, text.size() - at);
      switch (Below(7)) {
        case 0: text.erase(at, length); break;
        case 1: text.insert(at, text.substr(at, length)); break;
        case 2: text.insert(at, std::string(kTokens[rng_() % std::size(kTokens)].text)); break;
        case 3:
          text.insert(at, Pick({" // c\n", "/* d */", "\n", ";", "\n\n\n", "/* e\n f */"}));
          break;
        case 4: text[at] = static_cast<char>(rng_()); break;
        case 5: text.insert(at, text.substr(rng_() % text.size(), rng_() % 40)); break;
        default: text.insert(at, Pick({"(", ")", "[", "]", "{", "}", "#[", "\"", "1.", "é", "&&"}));
      }
    }
    return text;
  }

 private:
  int Below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  std::string Pick(std::vector<std::string> choices) { return choices[Below(choices.size())]; }
  void Put(const std::string& text) { out_ += text; }
  // White space where tokens meet; inside brackets also newlines and comments.
  void Gap() { Put(Chance(85) ? " " : Pick({"\n", " // note\n", " /* b */ ", "\n\n"})); }
  void End() {
    Put(Pick({"\n", "\n", "\n", ";", "\n\n\n", "  // why\n", " /* q */\n", "\n// own\n"}));
  }
  std::string Name() {
    return Pick({"a", "b", "acc", "M", "N", "k", "step", "out", "test", "value_with_a_long_name",
                 "another_rather_long_name_to_make_lines_break", "x1", "inf"});
  }
  template <typename F>
  void List(int least, const F& element) {
    const int n = least + Below(4);
    for (int i = 0; i < n; ++i) {
      if (i > 0) Put(","), Gap();
      element();
    }
  }

  void Expr(int depth) {
    if (depth <= 0) {
      Put(Pick({"1", "0.5", "1e-3", "0x1F", "true", "\"s\\n\"", Name(), Name(), Name()}));
      return;
    }
    switch (Below(12)) {
      case 0: Put(Pick({"-", "not "})), Atom(depth - 1); break;
      case 1: Put("("), Gap(), Expr(depth - 1), Gap(), Put(")"); break;
      case 2: Put(Name() + "("), List(0, [&] { Expr(depth - 1); }), Put(")"); break;
      case 3: Put(Name() + "("), Expr(depth - 1), Put(", axis = "), Expr(0), Put(")"); break;
      case 4: {
        Put(Name() + "[");
        List(1, [&] { Chance(60) ? Expr(depth - 1) : Put(Pick({":", "None"})); });
        if (Chance(20)) Put("; fill = "), Expr(depth - 1);
        Put("]");
        break;
      }
      case 5: Atom(depth - 1), Put(Pick({".T", ".start", " as bf16", "[:, None]"})); break;
      case 6:
        Put("(if "), Atom(depth - 1), Put(" {"), Gap(), Expr(depth - 1), Gap(), Put("} else { ");
        Expr(depth - 1), Put(" })");
        break;
      default:
        Atom(depth - 1), Gap(), Put(Pick({"+", "*", "/", "%", "@", "and", "or"})), Gap();
        Atom(depth - 1);
        break;
    }
  }
  void Atom(int depth) {
    if (depth <= 0) return Expr(0);
    Put("("), Expr(depth), Put(")");
  }
  void Type() {
    Put(Pick({"f32", "bf16", "i32", "e4m3"}));
    if (Chance(70)) Put("["), List(1, [&] { Expr(Below(2)); }), Put("]");
  }
  void Facts() {
    List(1, [&] {
      Atom(1);
      Put(Chance(50) ? " > 0" : " in {1, 2, 3}");
    });
  }
  void Head() {
    Put(Name() + " in ");
    if (Chance(50)) return Put("tiles("), Expr(1), Put(", "), Expr(0), Put(")");
    Atom(1), Put(".."), Atom(1);
    if (Chance(30)) Put(" step "), Atom(0);
  }
  void Block(int depth) {
    Put(Pick({" {\n", "{", " {  // open\n", "\n{\n"}));
    const int n = Below(4);
    for (int i = 0; i < n; ++i) Statement(depth - 1);
    Put("}");
  }
  void Statement(int depth) {
    if (Chance(15)) Put(Pick({"#[depth = 3]\n", "#[a, role = b] ", "#[x] // pin\n#[y]\n"}));
    switch (Below(depth > 0 ? 12 : 6)) {
      case 0:
        Put(Pick({"let ", "var ", "let x: f32[B] = 1; let "}) + Name() + " = "), Expr(3);
        break;
      case 1: Put(Name() + Pick({" = ", " += ", "[m, n] *= ", "[k] -= "})), Expr(3); break;
      case 2: Put(Pick({"print(", "assert("})), List(0, [&] { Expr(2); }), Put(")"); break;
      case 3:
        Put("tune " + Name() + " = 64 in " + Pick({"{64, 128}", "1..9 step 2", "0..N"}));
        break;
      case 4: Put("let q = 1\n  where "), Facts(); break;
      case 5: Put("return "), Expr(2); break;
      case 6: Put("for "), Head(), Block(depth); break;
      case 7: Put("parallel "), List(1, [&] { Head(); }), Block(depth); break;
      case 8: Put("while "), Atom(2), Block(depth); break;
      default:
        Put("if "), Atom(2), Block(depth);
        while (Chance(30)) Gap(), Put("else if "), Atom(1), Block(depth);
        if (Chance(50)) Gap(), Put("else"), Block(depth);
        break;
    }
    End();
  }
  void Item() {
    if (Chance(10)) Put("#[expert]\n");
    switch (Below(6)) {
      case 0: Put("import \"std/a\""); break;
      case 1: Put("const " + Name() + " = "), Expr(3); break;
      case 2:
        Put("test \"t\" {"), Gap(), Put("f("), List(0, [&] { Put(Name() + " = "), Expr(1); });
        Put(Pick({")", ") ~ 1e-2", ")\n g() ~ 0.1\n"})), Put(" }");
        break;
      case 3:
        Put("fn " + Name() + "("), List(0, [&] { Put(Name() + ": "), Type(); }), Put(")");
        if (Chance(60)) Put(" -> "), Type();
        Chance(40) ? Put(" { return a }") : Block(2);
        break;
      default:
        Put("kernel " + Name() + "(");
        List(0, [&] {
          Put(Name() + ": " + Pick({"", "", "out ", "inout ", "const "})), Type();
          if (Chance(10)) Put(" = "), Expr(1);
        });
        Put(")");
        if (Chance(40)) Gap(), Put("where "), Facts();
        Block(3);
        break;
    }
    End();
  }

  std::mt19937_64 rng_;
  std::string out_;
};

struct Stats {
  int64_t programs = 0, parsed = 0;
};

[[noreturn]] void Fail(const char* what, uint64_t seed, const std::string& text,
                       const std::string& more) {
  std::printf("parse_fuzz: %s\nseed %llu\n---- input\n%s\n---- then\n%s\n", what,
              static_cast<unsigned long long>(seed), text.c_str(), more.c_str());
  std::exit(1);
}

void CheckOne(const std::string& text, uint64_t seed, Stats& stats) {
  SourceMap sources;
  DiagSink diags;
  const int32_t file = sources.Add("fuzz.tile", text);
  const Result<Ast> ast = Parse(sources, file, diags);
  ++stats.programs;
  const std::string errors = RenderAll(diags, sources);
  for (const Diagnostic& d : diags.all()) (void)RenderJson(d, sources);
  if (ast.ok() == diags.has_errors()) Fail("result and diagnostics disagree", seed, text, errors);
  if (!ast.ok()) return;
  ++stats.parsed;
  const std::string once = Format(*ast, sources, file);
  const int32_t again = sources.Add("again.tile", once);
  const Result<Ast> second = Parse(sources, again, diags);
  if (!second.ok())
    Fail("formatted text does not parse", seed, text, once + RenderAll(diags, sources));
  if (DumpAst(*ast) != DumpAst(*second)) Fail("formatting changed the tree", seed, text, once);
  if (ast->comments.size() != second->comments.size())
    Fail("formatting lost a comment", seed, text, once);
  const std::string twice = Format(*second, sources, again);
  if (once != twice)
    Fail("formatting is not idempotent", seed, text, once + "\n---- second\n" + twice);
}

}  // namespace
}  // namespace tilec::language

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  double seconds = 10;
  uint64_t first = 1;
  CLI::App app("random programs: parser and formatter");
  app.add_option("--seconds", seconds);
  app.add_option("--seed", first);
  CLI11_PARSE(app, argc, argv);
  const auto stop = Clock::now() + std::chrono::duration<double>(seconds);
  tilec::language::Stats stats;
  uint64_t seed = first;
  for (; Clock::now() < stop; ++seed) {
    tilec::language::Generator generator(seed);
    std::string text = generator.Program();
    tilec::language::CheckOne(text, seed, stats);
    for (int i = 0; i < 4; ++i) {
      text = generator.Damage(std::move(text));
      tilec::language::CheckOne(text, seed, stats);
    }
  }
  std::printf("parse_fuzz: seeds %llu..%llu, %lld programs, %lld parsed\n",
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(seed),
              static_cast<long long>(stats.programs), static_cast<long long>(stats.parsed));
  // A generator that no longer produces programs tests nothing.
  return stats.programs > 0 && stats.parsed * 8 < stats.programs ? 1 : 0;
}
