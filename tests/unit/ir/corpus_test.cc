// Every call of every test in the kernel files, as IR: it prints and parses back, and the clean-up
// passes change no value the interpreter gives.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ir/interpret.h"
#include "ir/pass.h"
#include "tests/unit/frontend/helper.h"
#include "tests/unit/h200.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargest = 1 << 20;  // elements of a tensor; larger calls are left to other tests

// Random tensors and the call's scalars; nothing if the call is too large for a unit test.
std::optional<InterpretInputs> InputsOf(const Function& fn, const frontend::Values& args) {
  InterpretInputs inputs;
  for (const auto& [name, value] : args) {
    if (const int64_t* n = std::get_if<int64_t>(&value)) inputs.dims[name] = *n;
    if (const bool* b = std::get_if<bool>(&value)) inputs.dims[name] = *b;
    if (const double* d = std::get_if<double>(&value)) inputs.scalars[name] = *d;
  }
  for (const auto& [name, n] : fn.statics) inputs.dims.emplace(name, n);
  uint64_t seed = 1;
  for (const Param& p : fn.params) {
    if (p.kind == ParamKind::kScalar && !inputs.scalars.contains(p.name) &&
        !inputs.dims.contains(p.name))
      inputs.scalars[p.name] = 1;
    if (p.kind != ParamKind::kTensor) continue;
    std::vector<int64_t> dims;
    int64_t elements = 1;
    for (const Expr& e : p.dims) {
      const std::optional<int64_t> n = Eval(e, inputs.dims);
      if (!n) return std::nullopt;
      dims.push_back(*n);
      elements *= *n;
    }
    if (elements > kLargest) return std::nullopt;
    inputs.tensors[p.name] = TensorValue::Random(fn.type(p.value).dtype, dims, seed++);
  }
  return inputs;
}

bool SameValues(const TensorValue& a, const TensorValue& b) {
  if (a.words != b.words || a.v.size() != b.v.size()) return false;
  for (size_t i = 0; i < a.v.size(); ++i)
    if (a.v[i] != b.v[i] && !(std::isnan(a.v[i]) && std::isnan(b.v[i]))) return false;
  return true;
}

// Sums in another order.
bool CloseValues(const TensorValue& a, const TensorValue& b) {
  constexpr double kSlack = 1e-2;  // a unit in the last place of bf16 and some
  if (a.words != b.words || a.v.size() != b.v.size()) return false;
  for (size_t i = 0; i < a.v.size(); ++i)
    if (a.v[i] != b.v[i] && !(std::isnan(a.v[i]) && std::isnan(b.v[i])) &&
        !(std::abs(a.v[i] - b.v[i]) <= kSlack * (1 + std::abs(a.v[i]))))
      return false;
  return true;
}

// Clean-up without what sums, or rounds sums, in another order.
std::vector<PassId> Exact() {
  std::vector<PassId> passes(std::begin(kCleanUp), std::end(kCleanUp));
  std::erase_if(passes, [](PassId id) {  // the second: decoded blocks are added up piece by piece
    return id == PassId::kDeferReductions || id == PassId::kDecodeScales ||
           id == PassId::kSumParts || id == PassId::kOwnParts || id == PassId::kWalkBack;
  });
  return passes;
}

struct Tally {
  int printed = 0, interpreted = 0, changes = 0;
};

void CheckCall(frontend::Loaded& loaded, const frontend::TestCallInfo& call, Tally& tally) {
  loaded.diags.Clear();
  std::optional<Function> fn = loaded.Specialized(call.kernel, call.args);
  ASSERT_TRUE(fn) << loaded.errors();
  const std::string text = Print(*fn);
  DiagSink diags;
  Result<Function> parsed = ParseFunction(text, diags);
  ASSERT_TRUE(parsed.ok()) << Messages(diags) << text;
  EXPECT_EQ(Print(*parsed), text);
  EXPECT_TRUE(Verify(*parsed, diags).ok()) << Messages(diags);
  ++tally.printed;

  Function cleaned = *fn, summed = *fn;
  Result<PassOutcome> outcome = RunPasses(cleaned, Exact(), H200(), {}, diags);
  ASSERT_TRUE(outcome.ok()) << Messages(diags) << text;
  ASSERT_TRUE(RunPasses(summed, kCleanUp, H200(), {}, diags).ok()) << Messages(diags) << text;
  for (const PassTime& t : outcome->times) tally.changes += t.changes;
  std::optional<InterpretInputs> inputs = InputsOf(*fn, call.args);
  if (!inputs) return;
  InterpretInputs before = *inputs, after = *inputs, otherwise = *inputs;
  DiagSink first, second, third;
  const bool ok = Interpret(*fn, before, {}, first).ok();
  EXPECT_EQ(Interpret(cleaned, after, {}, second).ok(), ok) << Messages(first) << Messages(second);
  EXPECT_EQ(Interpret(summed, otherwise, {}, third).ok(), ok) << Messages(third);
  // Random arguments may violate an assert of the kernel; then both must.
  if (!ok) return;
  for (const auto& [name, value] : before.tensors)
    EXPECT_TRUE(SameValues(value, after.tensors[name])) << name << "\n" << text << Print(cleaned);
  for (const auto& [name, value] : before.tensors)
    EXPECT_TRUE(CloseValues(value, otherwise.tensors[name])) << name << "\n" << Print(summed);
  ++tally.interpreted;
}

void CheckFolder(const std::string& folder, Tally& tally) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(TILEC_SOURCE_DIR "/" + folder))
    if (entry.path().extension() == ".tile") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& path : files) {
    const std::string name = folder + "/" + path.filename().string();
    frontend::Loaded loaded(*frontend::ReadWhole(path.string()), name);
    ASSERT_TRUE(loaded.program) << loaded.errors();
    for (const frontend::TestInfo& test : loaded.program->tests())
      for (const frontend::TestCallInfo& call : test.calls) {
        SCOPED_TRACE(name + ", test \"" + test.name + "\", " + call.kernel);
        CheckCall(loaded, call, tally);
      }
  }
}

TEST(Corpus, PassesChangeNoMeaning) {
  Tally tally;
  CheckFolder("stdlib", tally);
  CheckFolder("tests/exec", tally);
  EXPECT_GT(tally.printed, 40);
  EXPECT_GT(tally.interpreted, 40);
  EXPECT_GT(tally.changes, 100);
}

}  // namespace
}  // namespace tilec::ir
