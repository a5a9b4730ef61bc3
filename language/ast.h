// The syntax tree of one `.tile` file: what was written and where, nothing about what it means.
//
// An Ast owns all nodes in flat vectors; nodes refer to each other by typed ids. A node kind is a
// plain struct, a node is its span plus a std::variant of the kinds; a std::visit over Overloaded
// is checked by the compiler to name every kind. Names of operations, types and functions are just
// names here: `max(a, b)`, `tiles(n, B)`, `print(x)` and `atomic_add(C[m], x)` are all CallExpr.
//
// What must hold in a tree that Parse returned:
//  * every id is valid unless its comment says "may be absent";
//  * spans lie in `file`; a parenthesised expression's span includes the parentheses;
//  * trees are at most kMaxNesting deep, so recursive walks need no guard;
//  * `in` (BinaryOp::kIn) and SetExpr occur only in `where` facts and in TuneStmt::set;
//  * a RangeExpr's step may be present only in `for`/`parallel` heads, `tune` sets and facts.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "support/ids.h"
#include "support/source.h"

namespace tilec::language {

using ExprId = Id<struct ExprTag>;
using StmtId = Id<struct StmtTag>;
using BlockId = Id<struct BlockTag>;
using ItemId = Id<struct ItemTag>;

inline constexpr int kMaxNesting = 200;

// std::visit(Overloaded{[](const IntExpr&) {…}, …}, expr.node)
template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

// An identifier where it stands.
struct Name {
  std::string text;
  Span span;
};

// ---- Types -------------------------------------------------------------------------------------

// `f32`, `bf16[M, 2*N]`, `f32[M, N] strided(any)`. Without dims it is a scalar.
struct TypeRef {
  Span span;
  Name dtype;
  std::vector<ExprId> dims;
  bool strided_any = false;
  bool has_dims() const { return !dims.empty(); }
};

// ---- Expressions -------------------------------------------------------------------------------

enum class UnaryOp { kNeg, kNot };

enum class BinaryOp {
  kOr,
  kAnd,  // or and
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,  // == != < <= > >=
  kIn,  // in: rhs is a SetExpr or a RangeExpr; facts only
  kAdd,
  kSub,  // + -
  kMul,
  kDiv,
  kMod,
  kMatMul,  // * / % @
};

const char* Spelling(UnaryOp op);   // "-", "not"
const char* Spelling(BinaryOp op);  // "or" … "@"

// `literal` is the place of the number or string itself, without parentheses around it.
struct IntExpr {
  uint64_t value = 0;  // the literal has no sign; `-1` is UnaryExpr(kNeg, 1)
  Span literal = {};
};
struct FloatExpr {
  double value = 0;
  Span literal = {};
};
struct StringExpr {
  std::string value;  // escapes resolved
  Span literal = {};
};
struct BoolExpr {
  bool value = false;
};
// Also `inf` and `nan`: names the frontend knows.
struct NameExpr {
  std::string name;
};
struct UnaryExpr {
  UnaryOp op{};
  Span op_span;
  ExprId operand;
};
struct BinaryExpr {
  BinaryOp op{};
  Span op_span;
  ExprId lhs, rhs;
};
// `operand as dtype`
struct CastExpr {
  ExprId operand;
  Name dtype;
};
// `value` or `name = value`; positional arguments come first.
struct Arg {
  Span span;
  std::optional<Name> name;
  ExprId value;
};
struct CallExpr {
  Name callee;
  std::vector<Arg> args;
};
enum class IndexKind {
  kExpr,  // a scalar, a range variable, a range `lo..hi` or an i32 tile
  kAll,   // `:`
  kNone,  // `None`: a new dim of size 1
};
struct IndexItem {
  Span span;
  IndexKind kind{};
  ExprId value;  // kExpr only
};
// `base[items]` or `base[items; fill = x]`
struct IndexExpr {
  ExprId base;
  std::vector<IndexItem> items;  // at least one
  ExprId fill;                   // may be absent
};
// `.start .size .end .len .index .T`: any name is accepted here.
struct MemberExpr {
  ExprId object;
  Name member;
};
struct IfExprArm {
  ExprId condition;
  ExprId value;
};
// `if c { a } else if d { b } else { e }`: one expression per arm, else required.
struct IfExpr {
  std::vector<IfExprArm> arms;  // at least one
  ExprId else_value;
};
// `lo..hi` or `lo..hi step s`
struct RangeExpr {
  ExprId lo, hi;
  ExprId step;  // may be absent
};
// `{64, 128, 192}`
struct SetExpr {
  std::vector<ExprId> values;  // at least one
};

struct Expr {
  Span span;
  bool parens = false;  // written in parentheses (kept for the formatter)
  std::variant<IntExpr, FloatExpr, StringExpr, BoolExpr, NameExpr, UnaryExpr, BinaryExpr, CastExpr,
               CallExpr, IndexExpr, MemberExpr, IfExpr, RangeExpr, SetExpr>
      node;
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&node);
  }
};

// ---- Statements --------------------------------------------------------------------------------

enum class AssignOp { kSet, kAdd, kSub, kMul, kDiv };  // = += -= *= /=
const char* Spelling(AssignOp op);

// `let name[: type] = value`, `var name[: type] = value`, `let a, b = f(x)`
struct LetStmt {
  bool is_var = false;
  Name name;
  std::optional<TypeRef> type;
  ExprId value;
  std::vector<Name> more;  // names behind the first
};
// `target op value`; the target is a NameExpr or an IndexExpr whose base is a NameExpr.
struct AssignStmt {
  ExprId target;
  AssignOp op{};
  Span op_span;
  ExprId value;
};
// `name in range`, the head of a `for` and of `parallel`. The range is a RangeExpr, a call of
// `tiles`, or any expression: the frontend judges.
struct LoopHead {
  Span span;
  Name name;
  ExprId range;
};
struct ForStmt {
  LoopHead head;
  BlockId body;
};
struct ParallelStmt {
  std::vector<LoopHead> heads;  // at least one
  BlockId body;
};
struct WhileStmt {
  ExprId condition;
  BlockId body;
};
struct IfArm {
  ExprId condition;
  BlockId body;
};
struct IfStmt {
  std::vector<IfArm> arms;  // `if` and each `else if`
  BlockId else_body;        // may be absent
};
// `tune name = value [in set]`; set is a SetExpr or a RangeExpr.
struct TuneStmt {
  Name name;
  ExprId value;
  ExprId set;  // may be absent
};
// `where fact, fact`
struct WhereStmt {
  std::vector<ExprId> facts;  // at least one
};
struct ReturnStmt {
  ExprId value;
  std::vector<ExprId> more;  // values behind the first
};
// `break`: the innermost loop ends.
struct BreakStmt {};
// `print(x)`, `assert(c, "…")`, `static_assert(c)`, `atomic_add(C[m], x)`, a call of a fn.
struct ExprStmt {
  ExprId value;
};

// One entry of `#[depth = 3, role = producer]`.
struct Pin {
  Span span;
  Name name;
  ExprId value;  // may be absent: a flag
};

struct Stmt {
  Span span;              // without the pins
  std::vector<Pin> pins;  // of all `#[…]` before the statement
  std::variant<LetStmt, AssignStmt, ForStmt, ParallelStmt, WhileStmt, IfStmt, TuneStmt, WhereStmt,
               ReturnStmt, BreakStmt, ExprStmt>
      node;
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&node);
  }
};

struct Block {
  Span span;  // from `{` to `}`
  std::vector<StmtId> stmts;
};

// ---- Items -------------------------------------------------------------------------------------

enum class Direction { kIn, kOut, kInOut };

// `A: bf16[M, K]`, `C: out f32[M]`, `scale: f32`, `causal: const bool = false`
struct Param {
  Span span;
  Name name;
  Direction direction = Direction::kIn;
  bool is_const = false;
  TypeRef type;
  ExprId default_value;   // may be absent
  bool optional = false;  // `bias: optional f32[N]`
};

// `T in {bf16, f16}` of `kernel gemm<T in {bf16, f16}>(…)`; of a fn also `T` alone: any. Of a
// kernel also `score: fn`: a function that an instance names.
struct TypeParam {
  Span span;
  Name name;
  std::vector<Name> choices;
  bool is_fn = false;
};

struct KernelItem {
  Name name;
  std::vector<Param> params;
  Span params_span;           // from `(` to `)`
  std::vector<ExprId> facts;  // of `where` after the signature
  BlockId body;
  std::vector<TypeParam> types;
};
// `kernel capped = attention_with<score = softcap>`
struct Binding {
  Span span;
  Name name, value;
};
struct InstanceItem {
  Name name, of;
  std::vector<Binding> bindings;
};
struct FnItem {
  Name name;
  std::vector<Param> params;
  Span params_span;
  std::optional<TypeRef> result;
  std::vector<ExprId> facts;
  BlockId body;
  std::vector<TypeRef> more_results;  // behind the first: `-> (f32[N], f32)`
  std::vector<TypeParam> types;
};
// `const NAME[: type] = value`
struct ConstItem {
  Name name;
  std::optional<TypeRef> type;
  ExprId value;
};
// `import "std/math"`
struct ImportItem {
  std::string path;
  Span path_span;
};
// `gemm(M = 300, N = 200) ~ 1e-2`
struct TestCase {
  std::vector<Name> words;  // behind the call; the front end knows `expect KERNEL`
  Span span;
  ExprId call;       // a CallExpr
  ExprId tolerance;  // may be absent
};
struct TestItem {
  std::string name;
  Span name_span;
  std::vector<Name> words;  // behind the name; the front end knows `undecided allowed`
  std::vector<TestCase> cases;
};

struct Item {
  Span span;
  std::vector<Pin> pins;
  std::variant<KernelItem, FnItem, ConstItem, ImportItem, TestItem, InstanceItem> node;
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&node);
  }
};

// ---- The file ----------------------------------------------------------------------------------

// `// …` to the end of the line (without the newline) or `/* … */`, delimiters included.
struct Comment {
  Span span;
  bool block = false;
};

class Ast {
 public:
  int32_t file = -1;
  std::vector<ItemId> items;      // in source order
  std::vector<Comment> comments;  // in source order

  const Expr& expr(ExprId id) const { return exprs_[id]; }
  const Stmt& stmt(StmtId id) const { return stmts_[id]; }
  const Block& block(BlockId id) const { return blocks_[id]; }
  const Item& item(ItemId id) const { return items_[id]; }

  Expr& expr(ExprId id) { return exprs_[id]; }
  Stmt& stmt(StmtId id) { return stmts_[id]; }
  Block& block(BlockId id) { return blocks_[id]; }
  Item& item(ItemId id) { return items_[id]; }

  ExprId Add(Expr e) { return exprs_.Add(std::move(e)); }
  StmtId Add(Stmt s) { return stmts_.Add(std::move(s)); }
  BlockId Add(Block b) { return blocks_.Add(std::move(b)); }
  ItemId Add(Item i) { return items_.Add(std::move(i)); }

  int32_t expr_count() const { return exprs_.size(); }
  int32_t stmt_count() const { return stmts_.size(); }
  int32_t block_count() const { return blocks_.size(); }

 private:
  IdVector<ExprId, Expr> exprs_;
  IdVector<StmtId, Stmt> stmts_;
  IdVector<BlockId, Block> blocks_;
  IdVector<ItemId, Item> items_;
};

}  // namespace tilec::language
