// Damaged kernels: whatever happens to a real file token by token, the front end answers with IR
// that verifies or with diagnostics that render, and never crashes or hangs. Seeded, so a failure
// repeats; raise kRounds to dig deeper.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <random>

#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 1500;

std::vector<std::string> Tokens(const std::string& text) {
  std::vector<std::string> out;
  for (size_t i = 0; i < text.size();) {
    size_t j = i + 1;
    auto word = [&](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    if (word(text[i]))
      while (j < text.size() && word(text[j])) ++j;
    else if (text[i] == ' ')
      while (j < text.size() && text[j] == ' ') ++j;
    out.push_back(text.substr(i, j - i));
    i = j;
  }
  return out;
}

std::string Join(const std::vector<std::string>& tokens) {
  std::string out;
  for (const std::string& t : tokens) out += t;
  return out;
}

TEST(Fuzz, DamagedKernels) {
  std::vector<std::string> texts;
  std::vector<std::string> vocabulary = {
      "0",     "1",   "-",    "1.5",   "true", ":",  "None",
      "f32",   "i32", "bf16", "e4m3",  "@",    ".T", "inf",
      "index", "let", "var",  "tiles", "..",   "%",  "9223372036854775807",
      "sum",   "max", "axis", "dot",   "[",    "]",  "select"};
  for (const char* folder : {"stdlib", "tests/exec"})
    for (const auto& entry : fs::directory_iterator(TILEC_SOURCE_DIR "/" + std::string(folder)))
      if (entry.path().extension() == ".tile") texts.push_back(*ReadWhole(entry.path().string()));
  std::ranges::sort(texts);
  ASSERT_FALSE(texts.empty());
  std::mt19937 rng(20240607);
  auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  int loaded_ok = 0, checked_ok = 0, semantic = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::string> tokens = Tokens(texts[below(texts.size())]);
    for (size_t wounds = 1 + below(3); wounds > 0; --wounds) {
      const size_t at = below(tokens.size());
      // Words are swapped for words most of the time, so that many files still parse.
      auto is_word = [&](const std::string& t) {
        return std::isalnum(static_cast<unsigned char>(t[0])) != 0;
      };
      switch (below(6)) {
        case 0: tokens[at] = vocabulary[below(vocabulary.size())]; break;
        case 1: tokens[at].clear(); break;
        case 2:
          tokens.insert(tokens.begin() + static_cast<long>(at), tokens[below(tokens.size())]);
          break;
        default: {
          size_t a = at, b = below(tokens.size());
          for (int tries = 0; tries < 50 && !(is_word(tokens[a] + " ") && is_word(tokens[b] + " "));
               ++tries) {
            a = below(tokens.size());
            b = std::min(tokens.size() - 1, a + below(60));
          }
          tokens[a] = tokens[b];
        }
      }
    }
    const std::string text = Join(tokens);
    Loaded loaded(text, "fuzz.tile");
    if (loaded.program) {
      ++loaded_ok;
      const bool ok = Check(*loaded.program, loaded.diags).ok();
      EXPECT_EQ(ok, !loaded.diags.has_errors()) << text;
      checked_ok += ok;
      semantic += !ok;
      // Values that are given by a test must give verified IR or an explanation.
      for (const TestInfo& test : loaded.program->tests()) {
        if (test.calls.empty()) continue;
        const TestCallInfo& call = test.calls[below(test.calls.size())];
        DiagSink diags;
        Result<ir::Function> fn = Specialize(*loaded.program, {call.kernel, call.args, {}}, diags);
        EXPECT_EQ(fn.ok(), !diags.has_errors()) << text;
        if (fn.ok()) {
          EXPECT_TRUE(ir::Verify(*fn, diags).ok()) << RenderAll(diags, loaded.sources) << text;
        }
      }
    } else {
      EXPECT_TRUE(loaded.diags.has_errors()) << text;
    }
    EXPECT_EQ(loaded.errors().empty(), loaded.diags.all().empty());
    if (HasFailure()) break;
  }
  // The damage must leave enough alive to mean something.
  EXPECT_GT(loaded_ok, kRounds / 10);
  EXPECT_GT(semantic, kRounds / 50);
  EXPECT_GT(checked_ok, 0);
}

// Nesting multiplies when functions are inlined: 60 functions, each 90 blocks deep.
TEST(Fuzz, DeepInliningIsRefused) {
  std::string text;
  for (int f = 0; f < 60; ++f) {
    text += "fn f" + std::to_string(f) + "(x: f32) -> f32 {\n  var y = x\n";
    for (int i = 0; i < 90; ++i) text += "if y > " + std::to_string(i) + ".0 {\n";
    text += f == 0 ? "y = 1\n" : "y = f" + std::to_string(f - 1) + "(y)\n";
    text += std::string(90, '}') + "\n  return y\n}\n";
  }
  text += "kernel k(s: f32, Y: out f32[N]) {\n  parallel n in 0..N {\n    Y[n] = f59(s)\n  }\n}\n";
  Loaded loaded(text);
  ASSERT_TRUE(loaded.program) << loaded.errors();
  EXPECT_FALSE(loaded.Specialized("k"));
  EXPECT_EQ(loaded.codes(), "F175");
}

}  // namespace
}  // namespace tilec::frontend
