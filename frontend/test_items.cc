// The `test` blocks of a file: calls of kernels, what their tensors hold, what is expected of them.
//
// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/instantiate.h"
#include "frontend/internal.h"

namespace tilec::frontend {

namespace {

struct InputWord {
  const char* word;
  TestInput::Kind kind;
};
constexpr InputWord kInputWords[] = {
    {"arange", TestInput::Kind::kArange}, {"permutation", TestInput::Kind::kPermutation},
    {"normal", TestInput::Kind::kNormal}, {"uniform", TestInput::Kind::kUniform},
    {"sorted", TestInput::Kind::kSorted}, {"list", TestInput::Kind::kList},
    {"file", TestInput::Kind::kFile},
};

}  // namespace

// What stands between a test's name and its `{`.
Result<> ReadTestWords(const lang::TestItem& test, TestInfo& info, DiagSink& diags) {
  if (test.words.empty()) return Done();
  std::string text;
  for (const lang::Name& word : test.words) text += (text.empty() ? "" : " ") + word.text;
  info.undecided_allowed = text == "undecided allowed";
  if (info.undecided_allowed) return Done();
  return diags
      .Report(kTestCall, Join(test.words.front().span, test.words.back().span),
              fmt::format("`{}` says nothing about a test", text))
      .Help("write `undecided allowed`, or `{` at once");
}

namespace {

// What stands behind a call: `expect KERNEL`.
Result<std::string> ReadExpected(const ProgramData& program, const lang::TestCase& test,
                                 DiagSink& diags) {
  if (test.words.empty()) return std::string();
  if (test.words.size() != 2 || test.words[0].text != "expect")
    return diags
        .Report(kTestCall, Join(test.words.front().span, test.words.back().span),
                fmt::format("`{}` says nothing about a call", test.words[0].text))
        .Help("write `expect KERNEL`, or a new line before the next call");
  const lang::Name& name = test.words[1];
  if (program.signatures.count(name.text)) return name.text;
  return NoSuchKernel(program,
                      diags.Report(kUnknownKernel, name.span, name.text, program.modules[0].path),
                      name.text);
}

// `X = arange`, `X = normal(0, 2)`, `X = 3`
Result<TestInput> ReadTestInput(const ProgramData& program, const lang::Arg& arg, DiagSink& diags) {
  const lang::Ast& ast = program.modules[0].ast;
  const lang::Expr& e = ast.expr(arg.value);
  TestInput out;
  out.at = arg.span;
  const auto number = [&](lang::ExprId id) -> Result<double> {
    ConstEval eval(program, 0, {}, diags);
    TRY(const Constant c, eval.Eval(id, fmt::format("what `{}` holds", arg.name->text)));
    return c.as_double();
  };
  const auto* name = e.As<lang::NameExpr>();
  const auto* call = e.As<lang::CallExpr>();
  const std::string word = name ? name->name : call ? call->callee.text : "";
  const std::optional<TestInput::Kind> kind = TestInputKind(word);
  if (!kind) {
    const ItemRef* item = program.Find(0, word);
    if (call || (name && !item && word != "inf" && word != "nan"))
      return Suggest(diags.Report(kTestCall, e.span,
                                  fmt::format("`{}` fills no tensor", program.TextOf(e.span))),
                     word, TestInputWords());
    TRY(const double all, number(arg.value));
    out.numbers = {all};
    return out;
  }
  out.kind = *kind;
  if (out.kind == TestInput::Kind::kFile) {
    const auto* path = call && call->args.size() == 1
                           ? ast.expr(call->args[0].value).As<lang::StringExpr>()
                           : nullptr;
    if (!path)
      return diags.Report(kTestCall, e.span, "`file` takes the path of a .npy file")
          .Help("write `file(\"x.npy\")`");
    out.file = Beside(program.modules[0].path, path->value);
    out.file.resize(out.file.size() - std::string_view(".tile").size());
    return out;
  }
  if (call)
    for (const lang::Arg& a : call->args) {
      TRY(const double n, number(a.value));
      out.numbers.push_back(n);
    }
  const size_t most = out.kind == TestInput::Kind::kPermutation ? 0
                      : out.kind == TestInput::Kind::kList      ? 4096
                                                                : 2;
  if (out.numbers.size() > most || (out.kind == TestInput::Kind::kList && out.numbers.empty()))
    return diags
        .Report(kTestCall, e.span,
                fmt::format("`{}` of {}", word, CountArguments(out.numbers.size())))
        .Help(
            "write `arange(first, step)`, `uniform(lo, hi)`, `sorted(lo, hi)`, `normal(mean, "
            "deviation)`, `permutation`, `list(1, 2, 3)` or a number");
  return out;
}

}  // namespace

Result<TestCallInfo> ReadTestCall(const ProgramData& program, const lang::TestCase& test,
                                  DiagSink& diags) {
  const lang::Ast& ast = program.modules[0].ast;
  TestCallInfo out;
  out.at = test.span;
  const lang::CallExpr* call = ast.expr(test.call).As<lang::CallExpr>();
  if (!call)
    return diags.Report(kTestCall, ast.expr(test.call).span, "a test is a call of a kernel")
        .Help("write `gemm(M = 300, N = 200, K = 136) ~ 1e-2`");
  out.kernel = call->callee.text;
  const auto sig = program.signatures.find(out.kernel);
  if (sig == program.signatures.end())
    return NoSuchKernel(
        program,
        diags.Report(kUnknownKernel, call->callee.span, out.kernel, program.modules[0].path),
        out.kernel);
  TRY(out.expect, ReadExpected(program, test, diags));
  for (const lang::Arg& arg : call->args) {
    if (!arg.name)
      return diags.Report(kTestCall, arg.span, "arguments of a test have names")
          .Help("write `NAME = VALUE`");
    const std::string& name = arg.name->text;
    const ParamInfo* param = sig->second.param(name);
    if (name == "seed" && !sig->second.Has(name)) {
      ConstEval eval(program, 0, {}, diags);
      TRY(out.seed, eval.EvalInt(arg.value, "the seed of a test"));
      continue;
    }
    if (!sig->second.Has(name))
      return Suggest(diags.Report(kUnknownArgument, arg.name->span, out.kernel, name), name,
                     sig->second.names());
    if (param && param->role == ParamRole::kTensor) {
      TRY(TestInput input, ReadTestInput(program, arg, diags));
      if (!out.inputs.emplace(name, std::move(input)).second)
        return diags.Report(kTestCall, arg.span, fmt::format("`{}` is given twice", name));
      continue;
    }
    if (out.args.count(name))
      return diags.Report(kTestCall, arg.span, fmt::format("`{}` is given twice", name));
    ConstEval eval(program, 0, {}, diags);
    TRY(const Constant value, eval.Eval(arg.value, "an argument of a test"));
    out.args[name] = value.value;
  }
  for (const DimInfo& dim : sig->second.dims)
    if (!out.args.count(dim.name))
      return diags
          .Report(kTestCall, test.span,
                  fmt::format("dim `{}` of `{}` has no value", dim.name, out.kernel))
          .Label(dim.at, "bound here")
          .Help(fmt::format("add `{} = 100`", dim.name));
  if (test.tolerance.valid()) {
    ConstEval eval(program, 0, {}, diags);
    TRY(const Constant t, eval.Eval(test.tolerance, "the tolerance of a test"));
    if (t.is_bool() || !(t.as_double() > 0))
      return diags
          .Report(kTestCall, ast.expr(test.tolerance).span,
                  fmt::format("the tolerance is {}", ToText(t.value)))
          .Help("a tolerance is a positive number, like `~ 1e-2`");
    out.tolerance = t.as_double();
  }
  return out;
}

std::optional<TestInput::Kind> TestInputKind(std::string_view word) {
  for (const InputWord& row : kInputWords)
    if (word == row.word) return row.kind;
  return std::nullopt;
}
std::vector<std::string> TestInputWords() {
  std::vector<std::string> out;
  for (const InputWord& row : kInputWords) out.emplace_back(row.word);
  return out;
}

}  // namespace tilec::frontend
