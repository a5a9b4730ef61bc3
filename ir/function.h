// A kernel at either level: SSA values in structured control flow, id-indexed storage.
//
// A Function owns everything in vectors; ops, values and blocks are 4-byte ids, so copying a
// Function is a deep copy and ids mean the same in the copy. Ids survive appends, references do
// not.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/layout.h"
#include "ir/op_info.h"
#include "ir/type.h"
#include "support/expr.h"
#include "support/ids.h"
#include "support/source.h"

namespace tilec::ir {

struct OpTag;
struct ValueTag;
struct BlockTag;
using OpId = Id<OpTag>;
using ValueId = Id<ValueTag>;
using BlockId = Id<BlockTag>;

// kInt, kInts, kString as they are; kNumber is int64_t or double.
using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attrs = std::vector<std::pair<std::string, AttrValue>>;  // in the order of the op's row

struct Op {
  OpKind kind = OpKind::kConstant;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  std::vector<BlockId> regions;
  Attrs attrs;
  Span at;
  BlockId block;  // where it stands

  const AttrValue* attr(std::string_view name) const;
  int64_t i(std::string_view name, int64_t absent = 0) const;  // kInt
  double number(std::string_view name) const;                  // kNumber as double
  const std::string& s(std::string_view name) const;           // kString ("" if absent)
  const std::vector<int64_t>& ints(std::string_view name) const;
  void set(std::string_view name, AttrValue value);
};

struct Value {
  Type type;
  OpId def;          // the op it is a result of, or invalid
  BlockId block;     // the block it is an argument of, or invalid
  std::string name;  // hint for printing; may be empty
};

struct Block {
  std::vector<ValueId> args;
  std::vector<OpId> ops;
  OpId parent;  // the op whose region this is; invalid for the body
};

enum class Level { kTile, kWarp };
enum class Direction { kIn, kOut, kInOut };
enum class ParamKind { kTensor, kDim, kScalar };  // kDim: an i64 dim name bound by the tensors

// What is known of a tensor argument when the kernel is specialised (lowering.md, key).
struct TensorFacts {
  int64_t base_align_bytes = 1;
  int64_t stride_align_bytes = 1;  // every outer stride · size is a multiple of this
  int64_t last_dim_align = 1;      // the last extent (elements) is a multiple of this power of two
  bool last_contiguous = true;
};

struct Param {
  ParamKind kind = ParamKind::kTensor;
  std::string name;
  Direction direction = Direction::kIn;
  std::vector<Expr> dims;  // kTensor: extents, outermost first; static ones are constants
  bool strided_any = false;
  TensorFacts facts;
  Span at;
  ValueId value;  // type tensor<…>, i64 or the scalar's
};

struct WhereFact {
  Expr condition;
  std::string text;
  Span at;
};

// Warp level: one CUtensorMap. `dims` lists tensor dims innermost first; box in elements. With
// `panel` the innermost dim is cut into panels of so many elements, which are one more dim of the
// map, its outermost: one copy brings all panels of a tile. The box then has that extent, too;
// coordinates are those of the tensor, the innermost a multiple of `panel`. `steps`: along each dim
// the box has every so many elements; empty: all of them.
struct TensorMapInfo {
  ValueId tensor;
  std::vector<int> dims;
  std::vector<int64_t> box;
  int swizzle_bytes = 0;
  int64_t panel = 0;
  std::vector<int64_t> steps;
  bool operator==(const TensorMapInfo&) const = default;
};

struct LaunchInfo {
  int warps = 4;
  int64_t smem_bytes = 0;
  int64_t ctas_per_sm = 1;     // registers are to suffice for so many
  int64_t cluster = 1;         // CTAs that see each other's shared memory; divides the grid
  Expr grid = Expr::Const(1);  // CTAs in all
  std::vector<TensorMapInfo> maps;
};

struct Function {
  std::string name;
  Level level = Level::kTile;
  std::vector<Param> params;
  std::vector<WhereFact> facts;
  Bindings statics;  // dims, consts and tunes it was specialised for
  IdVector<OpId, Op> ops;
  IdVector<ValueId, Value> values;
  IdVector<BlockId, Block> blocks;
  IdVector<LayoutId, Layout> layouts;  // interned
  BlockId body;
  LaunchInfo launch;  // warp level

  Function();  // with an empty body block
  LayoutId Intern(const Layout& layout);
  const Type& type(ValueId v) const { return values[v].type; }
  const Layout& layout(ValueId v) const { return layouts[values[v].type.layout]; }
  // The op that defines v, or nullptr for block arguments and parameters.
  const Op* def(ValueId v) const;
  const Param* param(ValueId v) const;
  const Param* param(std::string_view name) const;
  ValueId AddParam(Param param, Type type);
  BlockId AddBlock(OpId parent);
  ValueId AddArg(BlockId block, Type type, std::string name = "");
};

// All ops that stand in the body or a region of it, in program order.
std::vector<OpId> OpsInOrder(const Function& fn);

// Appends ops at the end of a block.
class Builder {
 public:
  Builder(Function& fn, BlockId block) : fn_(&fn), block_(block) {}
  Function& fn() { return *fn_; }
  BlockId block() const { return block_; }
  void SetBlock(BlockId block) { block_ = block; }
  void SetSpan(Span at) { at_ = at; }
  Span span() const { return at_; }

  OpId Add(OpKind kind, std::vector<ValueId> operands, std::vector<Type> results, Attrs attrs = {});
  // One result, which is returned.
  ValueId Value(OpKind kind, std::vector<ValueId> operands, Type type, Attrs attrs = {});
  ValueId Int(int64_t v, DType d = DType::kI64);
  ValueId Constant(Type type, double v);
  // Elementwise with the first operand's type (cmp: bool of its shape and layout).
  ValueId Unary(OpKind kind, ValueId a);
  ValueId Binary(OpKind kind, ValueId a, ValueId b);
  ValueId Cmp(std::string_view pred, ValueId a, ValueId b);
  ValueId Cast(ValueId a, DType to);  // same shape and layout
  void Yield(std::vector<ValueId> values);
  // Evaluates a launch expression over dims and integer scalars of the function as i64.
  ValueId FromExpr(const Expr& e);

 private:
  Function* fn_;
  BlockId block_;
  Span at_;
};

struct Module {
  std::vector<Function> functions;
};

}  // namespace tilec::ir
