// SPDX-License-Identifier: Apache-2.0
#include "ir/function.h"

namespace tilec::ir {

const AttrValue* Op::attr(std::string_view name) const {
  for (const auto& [key, value] : attrs)
    if (key == name) return &value;
  return nullptr;
}
int64_t Op::i(std::string_view name, int64_t absent) const {
  const AttrValue* a = attr(name);
  if (!a) return absent;
  CHECK(std::holds_alternative<int64_t>(*a), "integer attribute expected");
  return std::get<int64_t>(*a);
}
double Op::number(std::string_view name) const {
  const AttrValue* a = attr(name);
  CHECK(a, "missing attribute");
  if (const int64_t* n = std::get_if<int64_t>(a)) return static_cast<double>(*n);
  return std::get<double>(*a);
}
const std::string& Op::s(std::string_view name) const {
  static const std::string empty;
  const AttrValue* a = attr(name);
  return a ? std::get<std::string>(*a) : empty;
}
const std::vector<int64_t>& Op::ints(std::string_view name) const {
  static const std::vector<int64_t> empty;
  const AttrValue* a = attr(name);
  return a ? std::get<std::vector<int64_t>>(*a) : empty;
}
void Op::set(std::string_view name, AttrValue value) {
  for (auto& [key, old] : attrs)
    if (key == name) {
      old = std::move(value);
      return;
    }
  attrs.emplace_back(std::string(name), std::move(value));
}

Function::Function() { body = blocks.Add({}); }

LayoutId Function::Intern(const Layout& layout) {
  for (int32_t i = 0; i < layouts.size(); ++i)
    if (layouts[LayoutId(i)] == layout) return LayoutId(i);
  return layouts.Add(layout);
}
const Op* Function::def(ValueId v) const {
  const OpId id = values[v].def;
  return id.valid() ? &ops[id] : nullptr;
}
const Param* Function::param(ValueId v) const {
  for (const Param& p : params)
    if (p.value == v) return &p;
  return nullptr;
}
const Param* Function::param(std::string_view wanted) const {
  for (const Param& p : params)
    if (p.name == wanted) return &p;
  return nullptr;
}
ValueId Function::AddParam(Param param, Type type) {
  param.value = values.Add({std::move(type), {}, {}, param.name});
  params.push_back(std::move(param));
  return params.back().value;
}
BlockId Function::AddBlock(OpId parent) { return blocks.Add({{}, {}, parent}); }
ValueId Function::AddArg(BlockId block, Type type, std::string hint) {
  const ValueId v = values.Add({std::move(type), {}, block, std::move(hint)});
  blocks[block].args.push_back(v);
  return v;
}

OpId Builder::Add(OpKind kind, std::vector<ValueId> operands, std::vector<Type> results,
                  Attrs attrs) {
  Op op;
  op.kind = kind;
  op.operands = std::move(operands);
  op.attrs = std::move(attrs);
  op.at = at_;
  op.block = block_;
  const OpId id = fn_->ops.Add(std::move(op));
  for (Type& t : results) {
    const ValueId v = fn_->values.Add({std::move(t), id, {}, ""});
    fn_->ops[id].results.push_back(v);
  }
  fn_->blocks[block_].ops.push_back(id);
  return id;
}
ValueId Builder::Value(OpKind kind, std::vector<ValueId> operands, Type type, Attrs attrs) {
  const OpId id = Add(kind, std::move(operands), {std::move(type)}, std::move(attrs));
  return fn_->ops[id].results[0];
}
ValueId Builder::Int(int64_t v, DType d) {
  return Value(OpKind::kConstant, {}, Type::Scalar(d), {{"value", v}});
}
ValueId Builder::Constant(Type type, double v) {
  AttrValue value = v;
  if (!IsFloat(type.dtype)) value = static_cast<int64_t>(v);
  return Value(OpKind::kConstant, {}, std::move(type), {{"value", std::move(value)}});
}
ValueId Builder::Unary(OpKind kind, ValueId a) { return Value(kind, {a}, fn_->type(a)); }
ValueId Builder::Binary(OpKind kind, ValueId a, ValueId b) {
  return Value(kind, {a, b}, fn_->type(a));
}
ValueId Builder::Cmp(std::string_view pred, ValueId a, ValueId b) {
  Type t = fn_->type(a);
  t.dtype = DType::kBool;
  return Value(OpKind::kCmp, {a, b}, std::move(t), {{"pred", std::string(pred)}});
}
ValueId Builder::Cast(ValueId a, DType to) {
  Type t = fn_->type(a);
  if (t.dtype == to) return a;
  t.dtype = to;
  return Value(OpKind::kCast, {a}, std::move(t));
}
void Builder::Yield(std::vector<ValueId> values) { Add(OpKind::kYield, std::move(values), {}); }

ValueId Builder::FromExpr(const Expr& e) {
  switch (e.op) {
    case Expr::Op::kConst: return Int(e.value);
    case Expr::Op::kName: {
      const Param* p = fn_->param(e.name);
      CHECK(p, "launch expression names no parameter: " + e.name);
      return Cast(p->value, DType::kI64);
    }
    case Expr::Op::kNot: return Cast(Cmp("eq", FromExpr(e.args[0]), Int(0)), DType::kI64);
    default: break;
  }
  const ValueId a = FromExpr(e.args[0]);
  const ValueId b = FromExpr(e.args[1]);
  auto cmp = [&](const char* pred) { return Cast(Cmp(pred, a, b), DType::kI64); };
  auto logic = [&](OpKind kind) {
    return Cast(Binary(kind, Cmp("ne", a, Int(0)), Cmp("ne", b, Int(0))), DType::kI64);
  };
  switch (e.op) {
    case Expr::Op::kAdd: return Binary(OpKind::kAdd, a, b);
    case Expr::Op::kSub: return Binary(OpKind::kSub, a, b);
    case Expr::Op::kMul: return Binary(OpKind::kMul, a, b);
    case Expr::Op::kDiv: return Binary(OpKind::kDiv, a, b);
    case Expr::Op::kMod: return Binary(OpKind::kMod, a, b);
    case Expr::Op::kMin: return Binary(OpKind::kMin, a, b);
    case Expr::Op::kMax: return Binary(OpKind::kMax, a, b);
    case Expr::Op::kCeilDiv:
      return Binary(OpKind::kDiv, Binary(OpKind::kSub, Binary(OpKind::kAdd, a, b), Int(1)), b);
    case Expr::Op::kEq: return cmp("eq");
    case Expr::Op::kNe: return cmp("ne");
    case Expr::Op::kLt: return cmp("lt");
    case Expr::Op::kLe: return cmp("le");
    case Expr::Op::kGt: return cmp("gt");
    case Expr::Op::kGe: return cmp("ge");
    case Expr::Op::kAnd: return logic(OpKind::kAnd);
    case Expr::Op::kOr: return logic(OpKind::kOr);
    case Expr::Op::kConst:
    case Expr::Op::kName:
    case Expr::Op::kNot: break;
  }
  UNREACHABLE("FromExpr");
}

namespace {
void Append(const Function& fn, BlockId block, std::vector<OpId>& out) {
  for (OpId id : fn.blocks[block].ops) {
    out.push_back(id);
    for (BlockId region : fn.ops[id].regions) Append(fn, region, out);
  }
}
}  // namespace

std::vector<OpId> OpsInOrder(const Function& fn) {
  std::vector<OpId> out;
  Append(fn, fn.body, out);
  return out;
}

}  // namespace tilec::ir
