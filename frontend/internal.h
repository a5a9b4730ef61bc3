// Shared by the files of this folder only: the loaded program, constants and their folding, names.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/diagnostics.h"
#include "frontend/frontend.h"
#include "language/ast.h"

namespace tilec::frontend {

namespace lang = ::tilec::language;

// A compile-time scalar. Without a dtype it is a literal and takes the other operand's type;
// `integer_only` marks dims, tunes and what is computed from them: those become any integer type,
// but not floating point, so that a static dim types like a runtime one.
struct Constant {
  ConstValue value = int64_t{0};
  std::optional<ir::DType> dtype;
  bool integer_only = false;

  bool is_bool() const { return std::holds_alternative<bool>(value); }
  bool is_int() const { return std::holds_alternative<int64_t>(value); }
  bool is_float() const { return std::holds_alternative<double>(value); }
  bool as_bool() const { return std::get<bool>(value); }
  int64_t as_int() const { return std::get<int64_t>(value); }
  // Beyond i64: a u64, whose bits `value` holds.
  bool is_large() const { return dtype == ir::DType::kU64 && is_int() && as_int() < 0; }
  double as_double() const {
    if (is_float()) return std::get<double>(value);
    if (is_large()) return static_cast<double>(static_cast<uint64_t>(as_int()));
    return is_int() ? static_cast<double>(as_int()) : (as_bool() ? 1.0 : 0.0);
  }
};
inline Constant IntConstant(int64_t v) { return {v, std::nullopt, true}; }
// What a literal stands for: of the dtype that it meets, or, where no other holds it, a u64.
inline Constant LiteralConstant(uint64_t v) {
  const bool large = v > static_cast<uint64_t>(INT64_MAX);
  return {static_cast<int64_t>(v), large ? std::optional(ir::DType::kU64) : std::nullopt};
}
// -9223372036854775808, whose literal alone fits no i64.
std::optional<Constant> LeastLiteral(const lang::Ast& ast, const lang::UnaryExpr& x);

// "the integer 3", "bool", "f32": for messages.
std::string Describe(const Constant& c);

struct ItemRef {
  int module = -1;
  lang::ItemId item;
  auto operator<=>(const ItemRef&) const = default;
};

struct Module {
  int32_t file = -1;
  std::string path;
  std::string name;  // Program::FileNames
  lang::Ast ast;
  std::map<std::string, ItemRef, std::less<>> own;
  std::map<std::string, ItemRef, std::less<>> visible;  // own and directly imported
  // What a line `kernel capped = attention<score = softcap>` stands for.
  std::map<lang::ItemId, std::vector<ItemRef>> instances;
};

struct ProgramData {
  ImportResolver resolver;
  const SourceMap* sources = nullptr;
  std::deque<Module> modules;  // 0 is the file itself
  std::map<ItemRef, Constant> constants;
  std::vector<std::string> kernels;  // own, then imported
  size_t own_kernels = 0;
  std::map<std::string, Signature, std::less<>> signatures;
  std::vector<TestInfo> tests;

  const lang::Item& item(ItemRef r) const { return modules[r.module].ast.item(r.item); }
  const ItemRef* Find(int module, std::string_view name) const;
  std::string TextOf(Span span) const;  // one line, shortened
};

// ---- Folding (fold.cc) -------------------------------------------------------------------------

bool IsCompare(lang::BinaryOp op);
Result<Constant> FoldUnary(lang::UnaryOp op, const Constant& a, Span at, DiagSink& diags);
Result<Constant> FoldBinary(lang::BinaryOp op, const Constant& a, const Constant& b, Span at,
                            Span b_at, DiagSink& diags);
// nullopt: not a function of constants.
std::optional<Constant> FoldCall(std::string_view name, const std::vector<Constant>& args);
Result<Constant> FoldCast(const Constant& a, ir::DType to, Span at, DiagSink& diags);
// A literal where `to` is wanted: checks kind and range.
Result<Constant> Adapt(const Constant& a, ir::DType to, Span at, DiagSink& diags);
// i32 and i64 scalars mix freely, so constants of these types carry no dtype.
Constant Loosened(Constant c);
bool FitsInteger(int64_t v, ir::DType d);
double RoundTo(double v, ir::DType d);

// ---- Constant expressions (const_eval.cc) ------------------------------------------------------

enum class NameState { kUnknown, kRuntime, kValue };
struct NameValue {
  NameState state = NameState::kUnknown;
  Constant value;
};
using ConstEnv = std::function<NameValue(const std::string&)>;

class ConstEval {
 public:
  ConstEval(const ProgramData& program, int module, ConstEnv env, DiagSink& diags)
      : program_(program),
        ast_(program.modules[module].ast),
        module_(module),
        env_(std::move(env)),
        diags_(diags) {}
  // `what` names the place in the message of a runtime name: "the default of a tune".
  Result<Constant> Eval(lang::ExprId id, const std::string& what);
  Result<int64_t> EvalInt(lang::ExprId id, const std::string& what);
  // A set or an inclusive range as values.
  Result<std::vector<Constant>> EvalSet(lang::ExprId id, const std::string& what);

 private:
  Result<Constant> Name(const lang::Expr& e, const std::string& name, const std::string& what);
  Result<Constant> In(const lang::BinaryExpr& in, const std::string& what);
  struct Steps {
    int64_t lo = 0, hi = 0, step = 1;
  };
  Result<Steps> EvalRange(const lang::RangeExpr& range, const std::string& what);
  Result<Constant> Call(const lang::Expr& e, const lang::CallExpr& call, const std::string& what);

  const ProgramData& program_;
  const lang::Ast& ast_;
  int module_;
  ConstEnv env_;
  DiagSink& diags_;
};

// Evaluates every module-level const into program.constants.
Result<> EvalConstants(ProgramData& program, DiagSink& diags);

// ---- Signatures (signature.cc, dims.cc) --------------------------------------------------------

const lang::KernelItem& KernelOf(const ProgramData& program, ItemRef ref);
std::optional<ItemRef> FindKernel(const ProgramData& program, std::string_view kernel);
Result<Signature> BuildSignature(const ProgramData& program, ItemRef kernel, DiagSink& diags);
// Where names become static: name → first such use.
std::map<std::string, Span> StaticUses(const ProgramData& program, ItemRef kernel);
// Names whose values, once known, are worth a program of their own; none in kernels that multiply
// matrices.
struct LoopLengths {
  std::set<std::string> rows_again;  // bound several loops of one block that read the same tensor
  std::set<std::string> turns;       // bound plain loops
};
inline constexpr int64_t kFewTurns = 8;
LoopLengths LengthsOfLoops(const ProgramData& program, ItemRef kernel);
std::vector<lang::ExprId> FactsOf(const lang::Ast& ast, const lang::KernelItem& kernel);
// An extent or an integer fact as a launch expression; nullopt with a reason otherwise.
std::optional<Expr> ToExpr(const ProgramData& program, int module, lang::ExprId id,
                           const std::function<bool(const std::string&)>& is_integer_name,
                           std::string* why);
// Names (NameExpr) inside an expression, in order, without callees.
void CollectNames(const lang::Ast& ast, lang::ExprId id,
                  const std::function<void(const std::string&, Span)>& visit);
// `zip(i, j)` as an index: positions of two dims that move together.
bool IsZip(const ProgramData& program, int module, const lang::Ast& ast,
           const lang::IndexItem& item);
// Dims of a tensor that an index is for.
size_t DimsOf(const ProgramData& program, int module, const lang::Ast& ast,
              const lang::IndexItem& item);
void VisitExprs(const lang::Ast& ast, lang::ExprId id,
                const std::function<void(lang::ExprId)>& visit);
void VisitStmts(const lang::Ast& ast, lang::BlockId id,
                const std::function<void(const lang::Stmt&)>& visit);
// The statement and all that stand in it.
void VisitStmt(const lang::Ast& ast, const lang::Stmt& stmt,
               const std::function<void(const lang::Stmt&)>& visit);
// Every name that is used somewhere in the file: values and callees.
void VisitItems(const lang::Ast& ast, const std::function<void(const std::string&, Span)>& visit);
// Every expression written directly in a statement (not in its blocks).
void VisitStmtExprs(const lang::Stmt& stmt, const std::function<void(lang::ExprId)>& visit);
Result<ir::DType> ResolveDType(const lang::Name& name, DiagSink& diags);

// The statics of one specialisation.
struct Statics {
  std::map<std::string, Constant> values;
  Bindings integers;  // integers and bools of `values`
};
Result<Statics> ResolveStatics(const ProgramData& program, const Signature& sig, ItemRef kernel,
                               const Values& values, DiagSink& diags);
Result<> CheckFactsOf(const ProgramData& program, const Signature& sig, ItemRef kernel,
                      const std::map<std::string, Constant>& values, DiagSink& diags);
Constant ToConstant(const ConstValue& v);
Result<Constant> CheckedValue(const std::string& name, const ConstValue& v, ir::DType dtype,
                              Span at, DiagSink& diags);

// ---- Lowering (lower*.cc) ----------------------------------------------------------------------

struct LowerOptions {
  bool warn = false;  // report warnings too (Check)
  std::set<ItemRef>* inlined = nullptr;
};
// A kernel as it is asked for: its sizes and types are known.
struct SettledKernel {
  const Signature& sig;
  ItemRef kernel;
  const Statics& statics;
  const SpecializeRequest& request;
};
Result<ir::Function> LowerKernel(const ProgramData& program, const SettledKernel& kernel,
                                 const LowerOptions& options, DiagSink& diags);
// Lowers the body of a fn with stand-in arguments, for its diagnostics.
Result<> CheckFn(const ProgramData& program, ItemRef fn, const LowerOptions& options,
                 DiagSink& diags);

// "write `x as f32`", with parentheses where x needs them.
std::string WriteCast(const std::string& text, ir::DType to);
std::string CountArguments(size_t n);  // "1 argument", "2 arguments"
std::string CountResults(size_t n);    // "nothing", "one value", "2 values"
// The report of a name that is no kernel, with what to write instead.
DiagBuilder NoSuchKernel(const ProgramData& program, DiagBuilder report, const std::string& name);
// What `import` means in the file `from`.
std::string Beside(const std::string& from, const std::string& import);
// test_items.cc: what stands between a test's name and its `{`, and one of its calls.
Result<> ReadTestWords(const lang::TestItem& test, TestInfo& info, DiagSink& diags);
Result<TestCallInfo> ReadTestCall(const ProgramData& program, const lang::TestCase& test,
                                  DiagSink& diags);

// Adds "did you mean `x`?" if something is near.
DiagBuilder Suggest(DiagBuilder report, std::string_view name,
                    const std::vector<std::string>& candidates);

}  // namespace tilec::frontend
