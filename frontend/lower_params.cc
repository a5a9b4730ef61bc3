// The head of a kernel: its parameters as values with what is known of them, and the facts of
// `where`: divisions, bounds, equalities.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

#include "frontend/poly.h"
#include "ir/split_batches.h"

namespace tilec::frontend {

Result<> Lowerer::BindParams(const Signature& sig, ItemRef ref, const Statics& statics,
                             const SpecializeRequest& request) {
  const lang::KernelItem& kernel = KernelOf(program_, ref);
  auto& scope = frames_.back().scopes.back();
  const int before = diags_.errors();
  for (size_t i = 0; i < sig.params.size(); ++i) {
    const ParamInfo& p = sig.params[i];
    if (p.role != ParamRole::kTensor) continue;
    ir::Param param;
    param.kind = ir::ParamKind::kTensor;
    param.name = p.name;
    param.direction = p.direction;
    param.strided_any = p.strided_any;
    param.at = p.at;
    param.facts.last_contiguous = !p.strided_any;
    if (const auto it = request.tensor_facts.find(p.name); it != request.tensor_facts.end())
      param.facts = it->second;
    for (size_t d = 0; d < p.dims.size(); ++d) {
      param.dims.push_back(Simplify(p.dims[d], statics.integers));
      const Span at = program_.modules[ref.module].ast.expr(kernel.params[i].type.dims[d]).span;
      if (param.dims.back().is_const() && param.dims.back().value < 0)
        Report(kExtentRange, at, fmt::format("the extent `{}`", program_.TextOf(at)),
               param.dims.back().value);
    }
    const int64_t rank = static_cast<int64_t>(p.dims.size());
    const ValueId v = fn_.AddParam(std::move(param), Type::Tensor(p.dtype, rank));
    facts(v);
    Val val;
    val.kind = Val::Kind::kTensor;
    val.index = static_cast<int>(fn_.params.size()) - 1;
    scope[p.name] = {LocalKind::kParam, val, p.at};
  }
  for (const DimInfo& d : sig.dims) {
    if (const auto it = statics.values.find(d.name); it != statics.values.end()) {
      scope[d.name] = {LocalKind::kDim, ConstVal(it->second, d.at), d.at};
      continue;
    }
    ir::Param param;
    param.kind = ir::ParamKind::kDim;
    param.name = d.name;
    param.at = d.at;
    const ValueId v = fn_.AddParam(std::move(param), Type::Scalar(DType::kI64));
    facts(v).position = true;
    SetSymbol(v, Expr::Name(d.name));
    scope[d.name] = {LocalKind::kDim, Value(v, d.at), d.at};
  }
  for (const ParamInfo& p : sig.params) {
    if (p.role == ParamRole::kTensor) continue;
    if (p.role == ParamRole::kConst) {
      Constant c = statics.values.at(p.name);
      scope[p.name] = {LocalKind::kConst, ConstVal(c, p.at), p.at};
      continue;
    }
    ir::Param param;
    param.kind = ir::ParamKind::kScalar;
    param.name = p.name;
    param.at = p.at;
    const ValueId v = fn_.AddParam(std::move(param), Type::Scalar(p.dtype));
    if (ir::IsInteger(p.dtype)) SetSymbol(v, Expr::Name(p.name));
    facts(v);
    scope[p.name] = {LocalKind::kParam, Value(v, p.at), p.at};
  }
  for (const TuneInfo& t : sig.tunes)
    scope[t.name] = {LocalKind::kTune, ConstVal(statics.values.at(t.name), t.at), t.at};
  if (diags_.errors() > before) return DiagSink::Propagate();
  return Done();
}

namespace {

// Every division inside an extent must be exact: K / G promises K % G == 0.
void CollectDivisions(const Expr& e, std::vector<Expr>& out) {
  if (e.op == Expr::Op::kDiv) out.push_back(Expr::Make(Expr::Op::kMod, e.args[0], e.args[1]));
  for (const Expr& a : e.args) CollectDivisions(a, out);
}

}  // namespace

void Lowerer::AddFacts(const Signature& sig, ItemRef ref, const Statics& statics) {
  const lang::Ast& tree = program_.modules[ref.module].ast;
  const lang::KernelItem& kernel = KernelOf(program_, ref);
  const std::function<bool(const std::string&)> integer = [&](const std::string& name) {
    if (sig.dim(name) || statics.integers.count(name)) return true;
    const ParamInfo* p = sig.param(name);
    return p && p->role == ParamRole::kScalar &&
           (ir::IsInteger(p->dtype) || p->dtype == DType::kBool);
  };
  for (lang::ExprId id : FactsOf(tree, kernel)) {
    const Span at = tree.expr(id).span;
    bool unknown = false;
    CollectNames(tree, id, [&](const std::string& name, Span name_at) {
      if (sig.Has(name) || program_.Find(ref.module, name) || name == "inf" || name == "nan") {
        const ParamInfo* p = sig.param(name);
        if (!p || p->role != ParamRole::kTensor) return;
        Report(kFactForm, name_at, fmt::format("`{}` is a tensor", name));
      } else {
        Suggest(Report(kUnknownName, name_at, name), name, sig.names());
      }
      unknown = true;
    });
    if (unknown) continue;
    std::string why;
    std::optional<Expr> e = ToExpr(program_, ref.module, id, integer, &why);
    if (!e) continue;  // over floating point: CheckFacts
    Expr simple = Simplify(*e, statics.integers);
    if (!simple.is_const()) fn_.facts.push_back({std::move(simple), program_.TextOf(at), at});
  }
  for (size_t i = 0; i < sig.params.size(); ++i)
    for (size_t d = 0; d < sig.params[i].dims.size(); ++d) {
      std::vector<Expr> remainders;
      CollectDivisions(sig.params[i].dims[d], remainders);
      const Span at = tree.expr(kernel.params[i].type.dims[d]).span;
      for (const Expr& r : remainders) {
        const std::string text = fmt::format("{} % {} == 0", ToText(r.args[0]), ToText(r.args[1]));
        Expr fact = Simplify(Expr::Make(Expr::Op::kEq, r, Expr::Const(0)), statics.integers);
        if (!fact.is_const()) {
          fn_.facts.push_back({std::move(fact), text, at});
        } else if (fact.value == 0) {
          std::string with;
          for (const std::string& n : NamesIn(r))
            with += fmt::format("{}{} = {}", with.empty() ? ": " : ", ", n, statics.integers.at(n));
          Report(kFactViolated, at, text, with).Note("divisions in an extent are exact");
        }
      }
    }
}

Result<ir::Function> Lowerer::Kernel(const Signature& sig, ItemRef ref, const Statics& statics,
                                     const SpecializeRequest& request) {
  frames_.push_back({ref.module, nullptr, ref, {}, {{}}, {}, false, {}});
  blocks_.push_back(fn_.body);
  fn_.statics = statics.integers;
  TRY_VOID(BindParams(sig, ref, statics, request));
  AddFacts(sig, ref, statics);
  TRY_VOID(TopLevel(KernelOf(program_, ref)));
  CheckAccesses();
  if (diags_.errors() > errors_before_) return DiagSink::Propagate();
  ir::SplitBatches(fn_);
  return std::move(fn_);
}

}  // namespace tilec::frontend
