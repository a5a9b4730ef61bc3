// From a syntax tree to tile IR: names, constants, shapes and types.
//
// A Program is a file with everything it imports. SignatureOf says what a kernel wants to know and
// which of its names are static; Specialize makes the tile IR of a kernel for given statics. All
// type and shape checking happens on the specialised kernel, with numbers, so that a message can
// say `BK = 64` and not a formula; Check does it for plausible stand-ins.
//
//   Program program = *Program::Load(sources, "gemm.tile", resolver, diags);
//   const Signature* s = program.FindSignature("gemm");
//   ir::Function fn = *Specialize(program, {.kernel = "gemm", .values = {{"BM", 128}}}, diags);
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "ir/function.h"
#include "support/diag.h"
#include "support/expr.h"

namespace tilec::frontend {

// A compile-time value: bool, integer or floating point.
using ConstValue = std::variant<bool, int64_t, double>;
using Values = std::map<std::string, ConstValue>;
std::string ToText(const ConstValue& value);

// Finds a module that is not relative: "std/math" → its path (for messages) and text.
struct ImportedText {
  std::string path;
  std::string text;
};
using FindModule = std::function<std::optional<ImportedText>(const std::string& module)>;
// A function of that form, and the modules there are, for messages.
struct ImportResolver {
  FindModule find;
  std::vector<std::string> modules;

  ImportResolver() = default;
  ImportResolver(std::nullptr_t) {}  // NOLINT: implicit by design
  template <typename F>
  requires std::is_invocable_v<F, const std::string&> ImportResolver(F f)
      : find(std::move(f)) {}  // NOLINT: implicit by design
  ImportResolver(FindModule f, std::vector<std::string> all)
      : find(std::move(f)), modules(std::move(all)) {}
  std::optional<ImportedText> operator()(const std::string& module) const {
    return find ? find(module) : std::nullopt;
  }
};

// ---- What a kernel looks like from outside -----------------------------------------------------

enum class ParamRole { kTensor, kScalar, kConst };

struct ParamInfo {
  ParamRole role = ParamRole::kTensor;
  std::string name;
  ir::DType dtype = ir::DType::kF32;
  Span at;
  // kTensor
  ir::Direction direction = ir::Direction::kIn;
  std::vector<Expr> dims;  // over dims, consts, tunes and integer scalars
  bool strided_any = false;
  // kScalar, kConst
  std::optional<ConstValue> default_value;
};

struct DimInfo {
  std::string name;
  Span at;  // where it is bound
  bool is_static = false;
  Span static_at;  // the use that makes it static
  // Rows of this length are read by two loops, one behind the other, and nothing is multiplied:
  // known, the length is taken as constant, so that the compiler can see whether a row fits a chip.
  bool rows_again = false;
  // Turns of a plain loop, and nothing is multiplied: known and small, the number is taken as
  // constant, so that the loop may be written out (a window of three, taps of a convolution).
  bool turns = false;
  // Is it constant if it has this value?
  bool Takes(const ConstValue& value) const;
};

struct TuneInfo {
  std::string name;
  Span at;
  std::optional<ConstValue> default_value;  // absent: depends on values given later
  // Empty: settable but not searched. If the set depends on other names it is the one for defaults.
  std::vector<ConstValue> candidates;
};

struct FactInfo {
  std::string text;
  Span at;
};

struct Signature {
  std::string kernel;
  Span at;
  std::vector<ParamInfo> params;  // in source order
  std::vector<DimInfo> dims;      // in order of binding
  std::vector<TuneInfo> tunes;
  std::vector<FactInfo> facts;

  const ParamInfo* param(std::string_view name) const;
  const DimInfo* dim(std::string_view name) const;
  const TuneInfo* tune(std::string_view name) const;
  // Must be known to Specialize (a tune or a defaulted const has a value anyway).
  bool IsStatic(std::string_view name) const;
  // Is constant for Specialize if it is given: what is static, the lengths of rows read again, and
  // few turns.
  bool TakesValue(std::string_view name, const ConstValue& value) const;
  bool Has(std::string_view name) const;
  std::vector<std::string> names() const;  // everything NAME=VALUE may set, tensors included
};

// One call of an in-file `test`.
// What a tensor of a test holds: `X = arange`, `X = normal(0, 0.1)`, `X = list(1, 2)`, `X = 3`.
struct TestInput {
  enum class Kind { kArange, kPermutation, kNormal, kUniform, kSorted, kList, kFill, kFile };
  Kind kind = Kind::kFill;
  std::vector<double> numbers;
  std::string file;  // kFile: beside the file of the test
  Span at;
};
// By its word; nullopt: there is none. kFill has none.
std::optional<TestInput::Kind> TestInputKind(std::string_view word);
std::vector<std::string> TestInputWords();

struct TestCallInfo {
  std::string kernel;
  Values args;
  std::map<std::string, TestInput> inputs;  // of tensors; the others are random
  std::optional<double> tolerance;
  std::string expect;           // a kernel whose results are to be had, too; "" if none is named
  std::optional<int64_t> seed;  // `seed = n`, unless the kernel has a `seed` of its own
  Span at;
};
struct TestInfo {
  std::string name;
  std::vector<TestCallInfo> calls;
  bool undecided_allowed = false;  // passes with nothing compared, too
  Span at;
};

// ---- A program ---------------------------------------------------------------------------------

struct ProgramData;  // internal.h

class Program {
 public:
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  static Result<Program> Load(SourceMap& sources, const std::string& path,
                              const ImportResolver& resolver, DiagSink& diags);
  // `path` is for messages and for relative imports; nothing is read from it.
  static Result<Program> LoadText(SourceMap& sources, const std::string& path, std::string text,
                                  const ImportResolver& resolver, DiagSink& diags);

  const std::string& path() const;
  // Kernels of this file in source order, then imported ones.
  std::vector<std::string> kernels() const;
  // Kernels of this file only.
  std::vector<std::string> own_kernels() const;
  const std::vector<TestInfo>& tests() const;  // of this file
  // Ids in the SourceMap of the file and of everything it imports, for cache keys.
  std::vector<int32_t> files() const;
  // What compiled kernels call these files: the same wherever they lie. The file itself by its own
  // name, imported ones by their way from there ("../lib/tiles.tile") or as the library spells
  // them.
  std::map<int32_t, std::string> FileNames() const;
  const Signature* FindSignature(std::string_view kernel) const;

  const ProgramData& data() const { return *data_; }

 private:
  explicit Program(std::unique_ptr<ProgramData> data);
  std::unique_ptr<ProgramData> data_;
};

// The signature, or a diagnostic with the nearest name. `kernel` may be "" if the file has one.
Result<Signature> SignatureOf(const Program& program, const std::string& kernel, DiagSink& diags);

struct SpecializeRequest {
  std::string kernel;
  // Statics by name; values of runtime dims and scalars may be given too and are used for checking
  // facts early only.
  Values values;
  std::map<std::string, ir::TensorFacts> tensor_facts;
};

Result<ir::Function> Specialize(const Program& program, const SpecializeRequest& request,
                                DiagSink& diags);

// Checks every `where` fact whose names all have values, those over floating-point scalars included
// (which Function::facts cannot express).
Result<> CheckFacts(const Program& program, const std::string& kernel, const Values& values,
                    DiagSink& diags);

// Checks everything that can be checked without being given values: all kernels with the defaults
// of their tunes and consts and stand-ins for static dims, all functions, all tests.
Result<> Check(const Program& program, DiagSink& diags);

// Values for what `kernel` must be given and has no default for, so that its facts hold: what Check
// checks it with. nullopt: no values that were tried satisfy the facts.
std::optional<Values> PlausibleValues(const Program& program, const std::string& kernel);

// Where the kernel, function or constant is defined that the program's own file sees by this name,
// imported ones included. Unknown spans: there is none.
struct ItemPlace {
  Span name, whole;
};
ItemPlace FindItem(const Program& program, std::string_view name);

// Names of built-in functions, for editors and messages.
std::vector<std::string> BuiltinNames();

}  // namespace tilec::frontend
