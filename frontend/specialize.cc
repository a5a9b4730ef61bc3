// The public operations on a loaded program: one specialisation, its facts, and the check that
// needs no values.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "frontend/internal.h"

namespace tilec::frontend {

namespace {

// All values that are known, as constants: the statics and what else was given.
std::map<std::string, Constant> KnownValues(const Signature& sig, const Statics* statics,
                                            const Values& values) {
  std::map<std::string, Constant> out;
  for (const auto& [name, v] : values) {
    const ParamInfo* p = sig.param(name);
    if (p && p->role == ParamRole::kTensor) continue;
    out[name] = ToConstant(v);
  }
  if (statics)
    for (const auto& [name, c] : statics->values) out[name] = c;
  return out;
}

}  // namespace

Result<ir::Function> Specialize(const Program& program, const SpecializeRequest& request,
                                DiagSink& diags) {
  const ProgramData& data = program.data();
  TRY(const Signature sig, SignatureOf(program, request.kernel, diags));
  const ItemRef ref = *FindKernel(data, sig.kernel);
  TRY(const Statics statics, ResolveStatics(data, sig, ref, request.values, diags));
  TRY_VOID(CheckFactsOf(data, sig, ref, KnownValues(sig, &statics, request.values), diags));
  return LowerKernel(data, {sig, ref, statics, request}, {}, diags);
}

Result<> CheckFacts(const Program& program, const std::string& kernel, const Values& values,
                    DiagSink& diags) {
  const ProgramData& data = program.data();
  const auto check = [&](const Signature& sig) {
    return CheckFactsOf(data, sig, *FindKernel(data, sig.kernel), KnownValues(sig, nullptr, values),
                        diags);
  };
  if (const Signature* known = program.FindSignature(kernel)) return check(*known);  // no copy
  TRY(const Signature sig, SignatureOf(program, kernel, diags));
  return check(sig);
}

namespace {

// Names that a kernel declares and never mentions again.
void WarnUnused(const ProgramData& data, ItemRef ref, DiagSink& diags) {
  const lang::Ast& ast = data.modules[ref.module].ast;
  const lang::KernelItem& kernel = KernelOf(data, ref);
  std::set<std::string> used;
  auto use = [&](lang::ExprId id) {
    CollectNames(ast, id, [&](const std::string& name, Span) { used.insert(name); });
  };
  std::vector<lang::Name> declared;
  VisitStmts(ast, kernel.body, [&](const lang::Stmt& s) {
    const auto* assign = s.As<lang::AssignStmt>();
    if (assign && ast.expr(assign->target).As<lang::NameExpr>())
      use(assign->value);  // being assigned is not being used
    else
      VisitStmtExprs(s, use);
    if (const auto* let = s.As<lang::LetStmt>()) {
      declared.push_back(let->name);
      declared.insert(declared.end(), let->more.begin(), let->more.end());
    }
    if (const auto* tune = s.As<lang::TuneStmt>()) declared.push_back(tune->name);
  });
  for (lang::ExprId fact : kernel.facts) use(fact);
  for (const lang::Param& p : kernel.params) {
    for (lang::ExprId d : p.type.dims) use(d);
    if (p.direction == lang::Direction::kIn) declared.push_back(p.name);
  }
  for (const lang::Name& name : declared)
    if (!used.count(name.text) && name.text[0] != '_')
      diags.Report(kUnusedName, name.span, name.text).Help("remove it, or begin its name with `_`");
}

// Values for what has none, so that the facts hold. Tried in this order.
std::optional<Values> StandIns(const ProgramData& data, const Signature& sig, ItemRef ref) {
  Values given;
  std::vector<std::string> open;  // integers to choose
  for (const DimInfo& d : sig.dims)
    if (d.is_static) open.push_back(d.name);
  for (const ParamInfo& p : sig.params) {
    if (p.role != ParamRole::kConst || p.default_value) continue;
    if (p.dtype == ir::DType::kBool)
      given[p.name] = false;
    else if (ir::IsFloat(p.dtype))
      given[p.name] = 1.0;
    else
      open.push_back(p.name);
  }
  static constexpr int64_t kTry[] = {64, 128, 32, 16, 256, 8, 4, 2, 1};
  auto holds = [&](const Values& values) {
    DiagSink quiet;
    const Result<Statics> statics = ResolveStatics(data, sig, ref, values, quiet);
    return statics.ok() &&
           CheckFactsOf(data, sig, ref, KnownValues(sig, &*statics, values), quiet).ok();
  };
  for (int64_t n : kTry) {
    for (const std::string& name : open) given[name] = n;
    if (holds(given)) return given;
  }
  if (open.size() != 2) return std::nullopt;
  for (int64_t a : kTry)
    for (int64_t b : kTry) {
      given[open[0]] = a;
      given[open[1]] = b;
      if (holds(given)) return given;
    }
  return std::nullopt;
}

}  // namespace

std::optional<Values> PlausibleValues(const Program& program, const std::string& kernel) {
  const ProgramData& data = program.data();
  const Signature* sig = program.FindSignature(kernel);
  const std::optional<ItemRef> ref = FindKernel(data, kernel);
  if (!sig || !ref) return std::nullopt;
  return StandIns(data, *sig, *ref);
}

Result<> Check(const Program& program, DiagSink& diags) {
  const ProgramData& data = program.data();
  const int before = diags.errors();
  std::set<ItemRef> inlined;
  LowerOptions options;
  options.warn = true;
  options.inlined = &inlined;
  for (const std::string& kernel : program.own_kernels()) {
    const Signature& sig = *program.FindSignature(kernel);
    const ItemRef ref = *FindKernel(data, kernel);
    const std::optional<Values> values = StandIns(data, sig, ref);
    SpecializeRequest request;
    request.kernel = kernel;
    if (values) {
      request.values = *values;
    } else {
      // Nothing we thought of satisfies the facts. If that is not for want of values, say why.
      bool open = false;
      for (const DimInfo& d : sig.dims) open |= d.is_static;
      for (const ParamInfo& p : sig.params) open |= p.role == ParamRole::kConst && !p.default_value;
      if (open) continue;
    }
    const int errors = diags.errors();
    const Result<Statics> statics = ResolveStatics(data, sig, ref, request.values, diags);
    if (!statics.ok()) continue;
    if (!CheckFactsOf(data, sig, ref, KnownValues(sig, &*statics, request.values), diags).ok())
      continue;
    (void)LowerKernel(data, {sig, ref, *statics, request}, options, diags);
    if (diags.errors() == errors) WarnUnused(data, ref, diags);
  }
  const Module& root = data.modules[0];
  for (lang::ItemId id : root.ast.items)
    if (root.ast.item(id).As<lang::FnItem>() && !inlined.count({0, id}))
      (void)CheckFn(data, {0, id}, options, diags);
  if (diags.errors() > before) return DiagSink::Propagate();
  return Done();
}

}  // namespace tilec::frontend
