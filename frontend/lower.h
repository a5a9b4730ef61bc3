// The walk that checks a specialised kernel and emits its tile IR, expression by expression.
//
// Everything is SSA: a `var` is a name for the current value; loops carry the vars that their body
// assigns, `if` yields the vars that an arm assigns. Facts about values that the IR does not keep
// (symbolic form, which parallel variables it depends on, names of its dims) live in a side table
// by ValueId. After a failing statement the walk goes on with the next one; what it declared is
// poison, whose uses fail without a second report.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/internal.h"
#include "ir/function.h"

namespace tilec::frontend {

using ir::DType;
using ir::OpKind;
using ir::Type;
using ir::ValueId;
using Shape = std::vector<int64_t>;

constexpr int64_t kMaxTileElements = int64_t{1} << 24;

// The value of an expression.
struct Val {
  enum class Kind { kConst, kValue, kRange, kTensor, kString };
  Kind kind = Kind::kConst;
  Constant c;
  ValueId v;
  int index = -1;  // kRange: ranges_, kTensor: fn_.params
  std::string text;
  Span at;  // of the expression

  bool is_const() const { return kind == Kind::kConst; }
  bool is_value() const { return kind == Kind::kValue; }
};

struct RangeInfo {
  Val start;  // an i64 scalar: constant or value
  Val bound;  // of what is iterated, not yet clipped
  int64_t size = 0;
  std::string name;  // of the size: "BM"
};

// `B[n, k]` → `B[n, k].T` and back.
std::string Transposed(std::string text);

enum class LocalKind { kLet, kVar, kLoop, kParallel, kParam, kDim, kConst, kTune, kPoison };
const char* Describe(LocalKind kind);

struct Local {
  LocalKind kind = LocalKind::kLet;
  Val val;
  Span at;
  bool read_only = false;  // a tensor that a fn declares without `out`
};

struct ValueFacts {
  bool has_symbol = false;
  std::optional<Expr> difference;  // of whole numbers that a bool compares by == or !=
  Expr symbol;                     // integer scalars
  bool position = false;  // a position in or extent of a tensor: fits i32 by the launch check
  uint64_t deps = 0;      // parallel variables it depends on
  std::vector<std::string> dims;  // symbolic names of the dims, "" if none
};

// One dim of an access to a tensor, for the rules about instances.
struct AccessDim {
  enum class Kind { kAll, kRange, kScalar, kGather };
  Kind kind = Kind::kAll;
  Expr symbol;
  int64_t size = 1;
  uint64_t deps = 0;
  std::string key;
  Span at;
};
enum class AccessKind { kLoad, kStore, kAtomic };
struct Access {
  AccessKind kind = AccessKind::kLoad;
  int tensor = -1;
  std::vector<AccessDim> dims;
  std::vector<Expr> zeros;  // what the `if`s around it say is 0
  Span at;
};

struct ResolvedIndex {
  std::string modes;
  std::vector<int64_t> sizes;
  std::vector<ValueId> load, store;  // index operands
  Shape shape;                       // of the access
  std::vector<std::string> names;
  Shape flat;  // what the op has: positions of `zip` in one dim, row by row
  Access access;
  bool wide = false;  // a tile of several dims has been met
};

struct Frame {
  int module = 0;
  const lang::FnItem* fn = nullptr;
  ItemRef item;
  Span call;
  std::vector<std::map<std::string, Local>> scopes;
  std::map<std::string, DType> types;  // type parameters of the fn
  bool lifted = false;                 // a fn of scalars that works on tiles, element by element
  std::vector<std::string> stops;      // open loops that a `break` may end: names of their flags
};

struct ParallelVar {
  std::string name;
  Span at;
  Expr extent;  // hi − lo
  bool single = false;
  int64_t step = 1;  // between two of its values
};

struct LoopRange {
  Val lo, hi;
  int64_t step = 1;
  bool is_range = false;  // over tiles()
  bool reversed = false;  // from the last one down
  std::string size_name;
};

class Lowerer {
 public:
  Lowerer(const ProgramData& program, std::string name, const LowerOptions& options,
          DiagSink& diags);
  Result<ir::Function> Kernel(const Signature& sig, ItemRef ref, const Statics& statics,
                              const SpecializeRequest& request);
  Result<> StandInFn(ItemRef ref);

 private:
  // lower.cc: scopes, emission
  DiagBuilder Err(const DiagDef& def, Span at, std::string message);
  template <typename... Args>
  DiagBuilder Report(const DiagDef& def, Span at, const Args&... args) {
    return Err(def, at, fmt::format(fmt::runtime(def.format), args...));
  }
  const lang::Ast& ast() const { return program_.modules[frames_.back().module].ast; }
  const lang::Expr& expr(lang::ExprId id) const { return ast().expr(id); }
  Local* Lookup(const std::string& name);
  bool Declare(const lang::Name& name, LocalKind kind, Val val);
  void Poison(const lang::Name& name);
  std::vector<std::string> NamesInScope() const;
  void Push(ir::BlockId block);
  void Pop();
  ValueFacts& facts(ValueId v);
  const Type& type(ValueId v) const { return fn_.type(v); }
  ValueId Emit(Span at, OpKind kind, std::vector<ValueId> operands, Type type,
               ir::Attrs attrs = {});
  ir::OpId EmitOp(Span at, OpKind kind, std::vector<ValueId> operands, std::vector<Type> results,
                  ir::Attrs attrs = {});
  ValueId Cached(const std::string& key, const std::function<ValueId()>& make);
  ValueId IntValue(Span at, int64_t v, DType d = DType::kI64);
  ValueId ConstantValue(Span at, const Constant& c, DType d, const Shape& shape = {});
  bool OverBudget(Span at);
  bool TooDeep(Span at);
  Val Value(ValueId v, Span at) const;
  Val ConstVal(Constant c, Span at) const;
  Expr SymbolOf(const Val& v);
  uint64_t DepsOf(const Val& v);
  bool IsPosition(const Val& v);
  void SetSymbol(ValueId v, Expr e);
  // "f32[BM = 128, BK = 64]" with names of dims, "i64", "the integer 3", "range `m`", …
  std::string DescribeVal(const Val& v);
  std::string DescribeType(const Type& t, const std::vector<std::string>& names);
  void LabelOrigin(DiagBuilder& report, lang::ExprId id, const Val& v);
  DType DefaultDType(const Constant& c) const;
  Result<> BindParams(const Signature& sig, ItemRef ref, const Statics& statics,
                      const SpecializeRequest& request);
  void AddFacts(const Signature& sig, ItemRef ref, const Statics& statics);

  Result<DType> DTypeOf(const lang::Name& name);  // type parameters too

  // lower_pins.cc
  Result<> PinOps(const lang::Pin& pin, int32_t first);

  // lower_stmt.cc
  void Block(lang::BlockId id);
  void Statements(const std::vector<lang::StmtId>& stmts, size_t first);
  void Unless(Span at, const std::vector<lang::StmtId>& stmts, size_t first);
  Result<> Break(Span at);
  void Statement(const lang::Stmt& s);
  Result<> LowerStatement(const lang::Stmt& s);
  Result<> Let(const lang::LetStmt& s);
  Result<> LetSeveral(const lang::LetStmt& s);
  Result<> Assign(const lang::Stmt& stmt, const lang::AssignStmt& s);
  Result<> For(const lang::Stmt& stmt, const lang::ForStmt& s);
  Result<> ForThatBreaks(Span at, const lang::ForStmt& s, const LoopRange& range);
  void OpenStop(Span at);
  void CloseStop();
  Result<> While(const lang::Stmt& stmt, const lang::WhileStmt& s);
  Result<> IfChain(const lang::Stmt& stmt, const lang::IfStmt& s, size_t arm);
  void AddZeros(ValueId condition, bool holds);
  void Note(Access access);
  Result<> Parallel(const lang::Stmt& stmt, const lang::ParallelStmt& s);
  Result<> TopLevel(const lang::KernelItem& kernel);
  Result<LoopRange> Head(lang::ExprId range);
  ValueId Descending(Span at, const LoopRange& range, ValueId lo, ValueId hi, ValueId ascending);
  Result<Val> Condition(lang::ExprId id);
  Result<Type> LocalType(const lang::TypeRef& t, std::vector<std::string>* names);
  // Vars of enclosing scopes that a block assigns.
  std::vector<std::string> Assigned(const std::vector<lang::BlockId>& blocks);
  std::vector<std::string> AssignedIn(const std::vector<lang::StmtId>& stmts);
  // May a `break` in them end the loop around?
  bool Breaks(const lang::Stmt& stmt) const;
  bool Breaks(lang::BlockId block) const;
  void BindLoopName(const lang::LoopHead& head, const LoopRange& range, ValueId position,
                    LocalKind kind);
  std::vector<ValueId> CurrentValues(const std::vector<std::string>& names);
  void SetValues(const std::vector<std::string>& names, const std::vector<ValueId>& values);
  // Yields what an arm of a branch made of them; the other arm begins as it did.
  void EndArm(Span at, const std::vector<std::string>& names, const std::vector<ValueId>& before);
  // As `want`, or a report that names `what`.
  Result<ValueId> Convert(const Val& v, const Type& want, const std::vector<std::string>& names,
                          const std::string& what, Span what_at, Span at);

  // lower_expr.cc
  Result<Val> Eval(lang::ExprId id);
  Result<Val> EvalNode(lang::ExprId id, const lang::Expr& e);
  Result<Val> Name(const lang::Expr& e, const std::string& name);
  Result<Val> Unary(const lang::Expr& e, const lang::UnaryExpr& x);
  Result<Val> Binary(const lang::Expr& e, const lang::BinaryExpr& x);
  Result<Val> Cast(const lang::Expr& e, const lang::CastExpr& x);
  Result<Val> Member(const lang::Expr& e, const lang::MemberExpr& x);
  Result<Val> If(const lang::Expr& e, const lang::IfExpr& x, size_t arm);
  Result<Val> RangeMember(Span at, int range, const std::string& name, Span name_at);
  Result<int64_t> StaticInt(lang::ExprId id, const std::string& what);
  // Reports uses of ranges, tensors, strings where a scalar or tile is wanted.
  Result<Val> Scalar(lang::ExprId id);
  Result<Val> TileOrScalar(lang::ExprId id);
  bool IsMatMul(lang::ExprId id) const;

  // lower_arith.cc
  Result<Val> BinaryVals(lang::BinaryOp op, const Val& a, const Val& b, Span at);
  Result<std::vector<ValueId>> Unify(const std::vector<Val>& vals, const char* name, Span at,
                                     bool compare);
  Result<DType> CommonDType(const std::vector<Val>& vals, const char* name, Span at, bool compare);
  Result<Shape> CommonShape(const std::vector<Val>& vals, const char* name, Span at);
  ValueId Broadcast(Span at, ValueId v, const Shape& shape);
  Result<> WantArithmetic(DType d, const char* name, const Val& v, Span at);
  // a @ b + acc; acc may be absent
  Result<Val> MatMul(lang::ExprId id, const Val* acc);
  // An operand of a product, and where it stands.
  struct Factor {
    const Val& val;
    lang::ExprId at;
  };
  Result<Val> Dot(const Factor& left, const Factor& right, const Val* acc, int64_t promote,
                  Span at);
  std::array<std::string, 2> PlacesOf(ir::ValueId tile);
  void WarnOfContraction(const Val& a, const Val& b, Span at);
  Shape ShapeOf(const Val& v) const;

  // lower_memory.cc
  Result<Val> Index(const lang::Expr& e, const lang::IndexExpr& x);
  Result<Val> TileIndex(const lang::Expr& e, const lang::IndexExpr& x, const Val& tile);
  // What the indices of a tile leave of it, as a view of its elements.
  struct TileView {
    Shape shape;
    std::vector<std::string> names;
    std::vector<int64_t> strides;
    std::vector<std::pair<size_t, Val>> picks;  // dims of `shape`, positions the kernel computes
    int64_t first = 0;
    bool whole = true;
  };
  Result<TileView> ViewOf(const lang::IndexExpr& x, const Val& tile);
  DiagBuilder UnknownFunction(Span at, const std::string& name,
                              const std::vector<std::string>& names);
  void WarnOtherDim(const lang::IndexItem& item, const RangeInfo& range, const ir::Param& param,
                    size_t d);
  Result<ResolvedIndex> Resolve(const lang::Expr& e, const lang::IndexExpr& x, int tensor,
                                bool writes);
  // An index; of `C[i] += x` once for both accesses.
  using Indices = std::map<int32_t, Val>;
  Result<Val> Position(lang::ExprId id, Indices* known);
  // `zip(i, j)` as an index of the next dims.
  // The dim of a tensor that an index is for.
  struct IndexPlace {
    const ir::Param& param;
    size_t dim;
    Indices* known;
    bool writes;
  };
  void Along(AccessDim* access, ResolvedIndex* out, const Val& start, int64_t size, ValueId begin,
             ValueId end);
  Result<AccessDim> ResolveItem(const lang::Expr& e, const lang::IndexItem& item,
                                const IndexPlace& at, ResolvedIndex* out);
  Result<AccessDim> ResolvePosition(const lang::Expr& e, const lang::IndexItem& item, const Val& v,
                                    ResolvedIndex* out);
  Result<> ZipIndex(const lang::CallExpr& x, Span at, Indices* known, ResolvedIndex* out);
  Result<Val> Load(const lang::Expr& e, const lang::IndexExpr& x, int tensor);
  Result<> Store(const lang::Expr& target, const lang::IndexExpr& x, const Val& value);
  // With `fetch` the value is what was there, else none.
  Result<Val> Atomic(const lang::Expr& e, const lang::CallExpr& call, bool fetch);
  Result<> CheckWritable(const lang::Expr& e, const lang::IndexExpr& x, int tensor);
  ValueId RangeEnd(Span at, int range);
  ValueId ToIndex(Span at, const Val& v);  // i64 scalar

  // lower_call.cc
  Result<Val> Call(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> BuiltinCall(const lang::Expr& e, const lang::CallExpr& x);
  // As many values as the fn declares results.
  Result<std::vector<Val>> CallFn(const lang::Expr& e, const lang::CallExpr& x, ItemRef item);
  Result<> CallStatement(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> Reduce(const lang::Expr& e, const lang::CallExpr& x, const char* kind);
  // The one tile of numbers and the axis that `argmax`, `cumsum` and their like take.
  Result<Val> TileAndAxis(const lang::Expr& e, const lang::CallExpr& x, int64_t* axis);
  Result<Val> ArgReduce(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> Scan(const lang::Expr& e, const lang::CallExpr& x, const char* kind);
  Result<Val> Select(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> Bitcast(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> DotCall(const lang::Expr& e, const lang::CallExpr& x, const Val* acc);
  // lower_scaled.cc
  Result<Val> AddProduct(const std::vector<ValueId>& factors, const std::vector<ValueId>& scales,
                         const Val* acc, ir::Attrs attrs, Span at);
  Result<Val> ScaledDot(const lang::Expr& e, const lang::CallExpr& x, const Val* acc);
  Result<Val> PackPair(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> HalfOfPair(const lang::Expr& e, const lang::CallExpr& x, bool high);
  Result<Val> Like(const lang::Expr& e, const lang::CallExpr& x);
  Result<std::vector<lang::ExprId>> Positional(const lang::CallExpr& x, size_t min, size_t max,
                                               const char* takes,
                                               const std::vector<std::string>& named = {});
  lang::ExprId NamedArg(const lang::CallExpr& x, std::string_view name) const;
  Result<int64_t> Axis(const lang::CallExpr& x, const Val& tile, Span at);
  Result<> PrintCall(const lang::Expr& e, const lang::CallExpr& x);
  Result<> AssertCall(const lang::Expr& e, const lang::CallExpr& x, bool is_static);
  Result<> BindFnDims(const std::string& callee, const lang::FnItem& fn, int module,
                      const std::vector<Val>& args);
  Result<> BindFnArgument(const std::string& callee, const lang::Param& p, Val v);
  Result<> CheckFnFacts(const lang::FnItem& fn, int module);
  Result<> BindFnParams(const lang::CallExpr& x, const lang::FnItem& fn, int module,
                        std::vector<Val> args);
  Result<std::vector<Val>> InlineBody(const lang::FnItem& fn, Span at);
  Result<std::vector<Val>> Return(const lang::FnItem& fn, const lang::ReturnStmt& ret, Span stmt,
                                  Span at);
  Result<Val> Returned(const lang::FnItem& fn, const lang::TypeRef& declared, lang::ExprId value,
                       Span at);

  Result<Val> ExtentValue(const Expr& extent, Span at);
  Result<> InferTypes(const lang::CallExpr& x, const lang::FnItem& fn,
                      const std::vector<Val>& args);
  Result<std::vector<Val>> Inlined(Span at, const lang::CallExpr& x, ItemRef item,
                                   std::vector<Val> args, bool lifted);
  bool WorksOnTiles(const lang::FnItem& fn, const std::vector<Val>& args) const;

  // lower_shape.cc: elements at other places
  ValueId Rearrange(Span at, ValueId v, const Shape& shape, int64_t first,
                    const std::vector<int64_t>& strides);
  // The elements row by row as a tile of that shape.
  ValueId Reshaped(Span at, ValueId v, const Shape& shape);
  Result<Val> Iota(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> Reshape(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> Flip(const lang::Expr& e, const lang::CallExpr& x);
  Result<Val> JoinTiles(const lang::Expr& e, const lang::CallExpr& x);
  Result<std::vector<Val>> Split(const lang::Expr& e, const lang::CallExpr& x, size_t parts);
  Result<Val> Pick(Span at, const Val& tile, size_t dim, const Val& index);
  ValueId Positions(Span at, const Shape& shape, int64_t axis);  // i32, along the axis
  // What `reduce` and `scan` are given: tiles of one shape, and a fn that combines elements.
  struct Combination {
    std::vector<Val> tiles;
    ItemRef item;
    const lang::FnItem* fn = nullptr;
  };
  Result<Combination> CombinationOf(const lang::Expr& e, const lang::CallExpr& x, const char* name);
  Result<std::vector<Val>> Combine(const lang::Expr& e, const lang::CallExpr& x, bool scan);
  // Tiles that one call made: `split`, `reduce` and `scan` of several. nullopt: another function.
  Result<std::optional<std::vector<Val>>> SeveralOf(const lang::Expr& e, const lang::CallExpr& x,
                                                    size_t wanted);

  // access.cc
  void CheckAccesses();
  void CheckStore(const Access& a);
  void CheckLoad(const Access& load, const Access& store);
  bool StandApart(const Access& load, const Access& store) const;

  const ProgramData& program_;
  LowerOptions options_;
  DiagSink& diags_;
  int errors_before_ = 0;
  ir::Function fn_;
  ir::Builder b_;
  std::vector<Frame> frames_;
  std::vector<ir::BlockId> blocks_;  // open blocks, outermost first
  std::vector<ValueFacts> facts_;
  std::vector<RangeInfo> ranges_;
  std::map<std::string, std::vector<std::pair<ir::BlockId, ValueId>>> cache_;
  std::vector<Access> accesses_;
  std::vector<Expr> zeros_;  // of the `if`s around what is being lowered
  std::vector<ParallelVar> parallel_;
  std::set<int> stored_;          // tensors written so far
  Indices* positions_ = nullptr;  // of the next index: those of a `+=`, by expression
  bool in_parallel_ = false;
  bool over_budget_ = false;
  int depth_ = 0;
  int64_t evaluations_ = 0;
};

}  // namespace tilec::frontend
