// The actions of the grammar: values of tokens, nodes, and what the grammar alone cannot check.
//
// SPDX-License-Identifier: Apache-2.0
#include "language/parse_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "language/diagnostics.h"
#include "language/parse.h"

namespace tilec::language {

const char* Spelling(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNeg: return "-";
    case UnaryOp::kNot: return "not";
  }
  UNREACHABLE();
}

const char* Spelling(BinaryOp op) {
  switch (op) {
    case BinaryOp::kOr: return "or";
    case BinaryOp::kAnd: return "and";
    case BinaryOp::kEq: return "==";
    case BinaryOp::kNe: return "!=";
    case BinaryOp::kLt: return "<";
    case BinaryOp::kLe: return "<=";
    case BinaryOp::kGt: return ">";
    case BinaryOp::kGe: return ">=";
    case BinaryOp::kIn: return "in";
    case BinaryOp::kAdd: return "+";
    case BinaryOp::kSub: return "-";
    case BinaryOp::kMul: return "*";
    case BinaryOp::kDiv: return "/";
    case BinaryOp::kMod: return "%";
    case BinaryOp::kMatMul: return "@";
  }
  UNREACHABLE();
}

const char* Spelling(AssignOp op) {
  switch (op) {
    case AssignOp::kSet: return "=";
    case AssignOp::kAdd: return "+=";
    case AssignOp::kSub: return "-=";
    case AssignOp::kMul: return "*=";
    case AssignOp::kDiv: return "/=";
  }
  UNREACHABLE();
}

namespace internal {
namespace {

bool IsCompare(BinaryOp op) { return op >= BinaryOp::kEq && op <= BinaryOp::kIn; }

// Calls f for every expression directly below `expr`.
template <typename F>
void ForEachChild(const Expr& expr, const F& f) {
  std::visit(Overloaded{
                 [](const IntExpr&) {},
                 [](const FloatExpr&) {},
                 [](const StringExpr&) {},
                 [](const BoolExpr&) {},
                 [](const NameExpr&) {},
                 [&](const UnaryExpr& e) { f(e.operand); },
                 [&](const BinaryExpr& e) { f(e.lhs), f(e.rhs); },
                 [&](const CastExpr& e) { f(e.operand); },
                 [&](const CallExpr& e) {
                   for (const Arg& arg : e.args) f(arg.value);
                 },
                 [&](const IndexExpr& e) {
                   f(e.base);
                   for (const IndexItem& item : e.items) f(item.value);
                   f(e.fill);
                 },
                 [&](const MemberExpr& e) { f(e.object); },
                 [&](const IfExpr& e) {
                   for (const IfExprArm& arm : e.arms) f(arm.condition), f(arm.value);
                   f(e.else_value);
                 },
                 [&](const RangeExpr& e) { f(e.lo), f(e.hi), f(e.step); },
                 [&](const SetExpr& e) {
                   for (ExprId value : e.values) f(value);
                 },
             },
             expr.node);
}

// The digits of a number without `_`.
std::string Digits(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

}  // namespace

const Token& ParseState::At(int index) const {
  return tokens[std::clamp(index, 0, static_cast<int>(tokens.size()) - 1)];
}

bool ParseState::Full() const { return diags_.errors() - first_error >= kMaxSyntaxErrors; }

Name ParseState::MakeName(TokenRef token) const {
  const Token& t = At(token.index);
  return {std::string(Text(t)), t.span};
}

std::string ParseState::StringValue(TokenRef token) {
  const Token& t = At(token.index);
  std::string_view text = Text(t);
  std::string value;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') break;
    if (text[i] != '\\' || i + 1 >= text.size()) {
      value += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n') {
      value += '\n';
    } else if (c == 't') {
      value += '\t';
    } else if (c == '0') {
      value += '\0';
    } else if (c == '\\' || c == '"') {
      value += c;
    } else {
      const auto at = t.span.begin + static_cast<uint32_t>(i) - 1;
      diags_.Report(kBadEscape, {t.span.file, at, at + 2}, text.substr(i - 1, 2))
          .Help("write `\\\\` for a backslash itself");
    }
  }
  return value;
}

ExprId ParseState::Add(Span span, decltype(Expr::node) node) {
  const ExprId id = ast.Add(Expr{.span = span, .node = std::move(node)});
  int depth = 1;
  ForEachChild(ast.expr(id), [&](ExprId child) {
    if (child.valid()) depth = std::max(depth, depth_[child.index] + 1);
  });
  if (depth > kMaxNesting) {
    if (!too_deep_)
      diags_.Report(kNestedTooDeep, span, kMaxNesting).Help("name parts of it with `let`");
    too_deep_ = true;
    depth = 1;
  }
  depth_.push_back(depth);
  return id;
}

StmtId ParseState::AddStmt(Span span, decltype(Stmt::node) node) {
  return ast.Add(Stmt{.span = span, .node = std::move(node)});
}

BlockId ParseState::AddBlock(Span span, std::vector<StmtId> stmts) {
  return ast.Add(Block{span, std::move(stmts)});
}

void ParseState::AddItem(Span keyword, Span all, std::vector<Pin> pins, decltype(Item::node) node) {
  const Span span = {keyword.file, keyword.begin, all.end};
  ast.items.push_back(
      ast.Add(Item{.span = span, .pins = std::move(pins), .node = std::move(node)}));
}

StmtId ParseState::WithPins(std::vector<Pin> pins, StmtId stmt) {
  ast.stmt(stmt).pins = std::move(pins);
  return stmt;
}

ExprId ParseState::Int(TokenRef token) {
  const Token& t = At(token.index);
  const std::string digits = Digits(Text(t));
  const char* begin = digits.data();
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0b")) {
    base = digits[1] == 'x' ? 16 : 2;
    begin += 2;
  }
  IntExpr node{.literal = t.span};
  const auto [stop, error] =
      std::from_chars(begin, digits.data() + digits.size(), node.value, base);
  if (error == std::errc::result_out_of_range)
    diags_.Report(kNumberTooLarge, t.span, Text(t)).Help("write a float: `1e20`");
  return Add(t.span, node);
}

ExprId ParseState::Float(TokenRef token) {
  const Token& t = At(token.index);
  const std::string digits = Digits(Text(t));
  FloatExpr node{.literal = t.span};
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), node.value);
  // Out of range is too large or too small; the smallest are 0 for every dtype there is.
  if (error == std::errc::result_out_of_range) {
    const size_t e = digits.find_first_of("eE");
    if (e != std::string::npos && digits[e + 1] == '-')
      node.value = 0;
    else
      diags_.Report(kNumberTooLarge, t.span, Text(t)).Help("write `inf` for infinity");
  }
  return Add(t.span, node);
}

ExprId ParseState::Parens(Span span, ExprId inner) {
  Expr& e = ast.expr(inner);
  e.parens = true;
  e.span = span;
  return inner;
}

ExprId ParseState::Binary(Span span, ExprId lhs, BinaryOp op, Span op_span, ExprId rhs) {
  const Expr& left = ast.expr(lhs);
  if (const BinaryExpr* l = left.As<BinaryExpr>();
      l != nullptr && !left.parens && IsCompare(op) && IsCompare(l->op))
    diags_.Report(kChainedCompare, op_span)
        .Label(l->op_span, "the first comparison")
        .Help("write `a < b and b < c`, or put round brackets around one of them");
  if (op == BinaryOp::kIn) stray_ins_.push_back(op_span);
  return Add(span, BinaryExpr{op, op_span, lhs, rhs});
}

ExprId ParseState::Range(Span span, ExprId lo, ExprId hi, ExprId step) {
  return Add(span, RangeExpr{lo, hi, step});
}

ExprId ParseState::Call(Span span, Name callee, std::vector<Arg> args) {
  const Arg* named = nullptr;
  for (const Arg& arg : args) {
    if (arg.name) {
      named = &arg;
    } else if (named != nullptr) {
      diags_.Report(kPositionalAfterNamed, arg.span)
          .Label(named->span, "named")
          .Help(
              fmt::format("move it to the front, or write `name = {}`", sources_.TextOf(arg.span)));
      break;
    }
  }
  return Add(span, CallExpr{std::move(callee), std::move(args)});
}

ExprId ParseState::Index(Span span, ExprId base, Suffixed suffix) {
  return Add(span, IndexExpr{base, std::move(suffix.items), suffix.fill});
}

StmtId ParseState::Assign(Span span, ExprId target, AssignOp op, Span op_span, ExprId value) {
  const Expr& t = ast.expr(target);
  const IndexExpr* index = t.As<IndexExpr>();
  const bool fits = t.As<NameExpr>() != nullptr ||
                    (index != nullptr && ast.expr(index->base).As<NameExpr>() != nullptr);
  if (!fits) {
    DiagBuilder report = diags_.Report(kBadTarget, t.span);
    if (index != nullptr)
      report.Help("use one pair of square brackets: `C[m, n] = x`");
    else
      report.Help("assign to a `var` (`x = ...`) or to a part of a tensor (`C[m, n] = ...`)");
  } else if (index != nullptr && index->fill.valid()) {
    diags_.Report(kBadTarget, ast.expr(index->fill).span)
        .Note("`fill` is for reading: what is stored outside of a tensor is dropped")
        .Help("remove `; fill = ...`");
  }
  return AddStmt(span, AssignStmt{target, op, op_span, value});
}

StmtId ParseState::Expression(Span span, ExprId value) {
  const Expr& e = ast.expr(value);
  if (e.As<NameExpr>() != nullptr) {
    Token word;
    word.kind = TokenKind::kName;
    word.span = e.span;
    if (ExplainForeignWord(word)) return AddStmt(span, ExprStmt{value});
  }
  if (e.As<CallExpr>() == nullptr) {
    const std::string_view text = sources_.TextOf(e.span);
    diags_.Report(kUnusedValue, e.span)
        .Help(fmt::format("write `let x = {0}`, `{0} = ...` or `print({0})`", text));
  }
  return AddStmt(span, ExprStmt{value});
}

Suffixed ParseState::WithFill(std::vector<IndexItem> items, const Name& option, ExprId fill) {
  if (option.text != "fill")
    diags_.Report(kUnknownIndexOption, option.span, option.text).Help("write `; fill = x`");
  return {std::move(items), fill};
}

FnItem ParseState::Fn(FnItem fn, std::vector<TypeRef> results) {
  if (results.empty()) return fn;
  fn.result = std::move(results.front());
  fn.more_results.assign(results.begin() + 1, results.end());
  return fn;
}

TypeRef ParseState::Strided(Span span, TypeRef type, const Name& what) {
  if (what.text != "any")
    diags_.Report(kUnknownStride, what.span, what.text).Help("write `strided(any)`");
  type.span = span;
  type.strided_any = true;
  return type;
}

std::vector<ExprId> ParseState::Facts(std::vector<ExprId> facts) {
  for (ExprId fact : facts) {
    const Span span = ast.expr(fact).span;
    std::erase_if(stray_ins_,
                  [&](Span in) { return in.begin >= span.begin && in.end <= span.end; });
  }
  return facts;
}

void ParseState::ReportStrayIns() {
  for (Span span : stray_ins_)
    if (!Full()) diags_.Report(kInOutsideFact, span).Help("compare instead: `x == 1 or x == 2`");
}

}  // namespace internal
}  // namespace tilec::language
