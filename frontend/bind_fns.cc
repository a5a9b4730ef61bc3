// Instances of kernels with function parameters: `kernel capped = attention_with<score = softcap>`.
//
// The copy goes into the module of the kernel that it is made from, where the names in its body
// mean something; the function stays where it is and is made visible there. What a function takes
// beyond the arguments of its calls are names of the kernel: a parameter that is there already, or
// a new one behind the others, so that a user's score may read a tensor of which the library knows
// nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/copy_kernel.h"
#include "frontend/instantiate.h"
#include "frontend/internal.h"

namespace tilec::frontend {
namespace {

struct Binder {
  ProgramData& program;
  int module;  // of the instance
  const lang::InstanceItem& instance;
  DiagSink& diags;

  DiagBuilder Refuse(Span at, std::string why) {
    return diags.Report(kInstance, at, instance.name.text, std::move(why));
  }

  // How many arguments the kernel gives to its function parameter, at the fewest.
  size_t Given(const lang::Ast& ast, const lang::KernelItem& kernel, const std::string& fn) const {
    size_t fewest = SIZE_MAX;
    VisitStmts(ast, kernel.body, [&](const lang::Stmt& stmt) {
      VisitStmtExprs(stmt, [&](lang::ExprId root) {
        VisitExprs(ast, root, [&](lang::ExprId id) {
          const auto* call = ast.expr(id).As<lang::CallExpr>();
          if (call && call->callee.text == fn) fewest = std::min(fewest, call->args.size());
        });
      });
    });
    return fewest;
  }

  // A name by which the module of the kernel finds the function, and no other item.
  std::string NameIn(int home, ItemRef fn, const std::string& wish) {
    auto& visible = program.modules[home].visible;
    std::string name = wish;
    while (true) {
      const auto [it, fresh] = visible.emplace(name, fn);
      if (fresh || it->second == fn) return name;
      name += "'";  // no name of a program ends so
    }
  }

  Result<> BindFn(const lang::Binding& binding, ItemRef of, KernelChoice& choice,
                  std::vector<lang::Param>& added) {
    const ItemRef* ref = program.Find(module, binding.value.text);
    const auto* fn = ref ? program.item(*ref).As<lang::FnItem>() : nullptr;
    if (!fn) {
      std::vector<std::string> fns;
      for (const auto& [name, item] : program.modules[module].visible)
        if (program.item(item).As<lang::FnItem>()) fns.push_back(name);
      return Suggest(Refuse(binding.value.span, fmt::format("`{}` is no fn", binding.value.text)),
                     binding.value.text, fns);
    }
    const auto& kernel = *program.item(of).As<lang::KernelItem>();
    const size_t given = Given(program.modules[of.module].ast, kernel, binding.name.text);
    if (given != SIZE_MAX && fn->params.size() < given)
      return Refuse(binding.value.span,
                    fmt::format("`{}` takes {}, `{}` gives it {}", binding.value.text,
                                CountArguments(fn->params.size()), instance.of.text, given))
          .Label(fn->params_span, "the parameters");
    KernelChoice::Fn& chosen = choice.fns[binding.name.text];
    for (size_t i = std::min(given, fn->params.size()); i < fn->params.size(); ++i) {
      const lang::Param& p = fn->params[i];
      chosen.more.push_back(p.name.text);
      const auto same = [&](const lang::Param& q) { return q.name.text == p.name.text; };
      if (std::any_of(kernel.params.begin(), kernel.params.end(), same) ||
          std::any_of(added.begin(), added.end(), same))
        continue;
      if (p.type.dtype.text == "range" ||
          std::any_of(fn->types.begin(), fn->types.end(),
                      [&](const lang::TypeParam& t) { return t.name.text == p.type.dtype.text; }))
        return Refuse(binding.value.span,
                      fmt::format("`{}` of `{}` becomes a parameter of the kernel, and a {} "
                                  "cannot be passed at launch",
                                  p.name.text, binding.value.text, p.type.dtype.text))
            .Label(p.span, "the parameter");
      lang::Param copy = p;
      CopyType(program.modules[ref->module].ast, program.modules[of.module].ast, copy.type);
      added.push_back(std::move(copy));
    }
    chosen.callee = NameIn(of.module, *ref, binding.value.text);
    return Done();
  }

  Result<> BindDType(const lang::Binding& binding, const lang::TypeParam& type,
                     KernelChoice& choice) {
    TRY(const ir::DType chosen, ResolveDType(binding.value, diags));
    for (const lang::Name& one : type.choices) {
      TRY(const ir::DType dtype, ResolveDType(one, diags));
      if (dtype == chosen) {
        choice.dtypes[type.name.text] = binding.value.text;
        return Done();
      }
    }
    return Refuse(binding.value.span, fmt::format("`{}` is none of the choices of `{}`",
                                                  binding.value.text, type.name.text))
        .Label(type.span, "declared here");
  }

  Result<std::vector<ItemRef>> Run() {
    const ItemRef* found = program.Find(module, instance.of.text);
    if (!found || !IsPattern(program.item(*found))) {
      std::vector<std::string> patterns;
      for (const auto& [name, ref] : program.modules[module].visible)
        if (IsPattern(program.item(ref))) patterns.push_back(name);
      const bool kernel = found && program.item(*found).As<lang::KernelItem>();
      if (kernel)
        return Refuse(instance.of.span,
                      fmt::format("`{}` has no function to be chosen", instance.of.text))
            .Help(fmt::format("call `{}` as it is; `kernel f<score: fn>(…)` has one",
                              instance.of.text));
      return Suggest(Refuse(instance.of.span, fmt::format("`{}` is no kernel", instance.of.text)),
                     instance.of.text, patterns);
    }
    const ItemRef of = *found;
    const lang::KernelItem kernel = *program.item(of).As<lang::KernelItem>();
    KernelChoice choice;
    std::vector<lang::Param> added;
    std::set<std::string> bound;
    for (const lang::Binding& b : instance.bindings) {
      const auto type = std::find_if(kernel.types.begin(), kernel.types.end(),
                                     [&](const auto& t) { return t.name.text == b.name.text; });
      if (type == kernel.types.end()) {
        std::vector<std::string> names;
        for (const lang::TypeParam& t : kernel.types) names.push_back(t.name.text);
        return Suggest(Refuse(b.name.span, fmt::format("`{}` has no parameter `{}` in `<…>`",
                                                       instance.of.text, b.name.text)),
                       b.name.text, names);
      }
      if (!bound.insert(b.name.text).second)
        return Refuse(b.span, fmt::format("`{}` is given twice", b.name.text));
      if (type->is_fn)
        TRY_VOID(BindFn(b, of, choice, added));
      else
        TRY_VOID(BindDType(b, *type, choice));
    }
    for (const lang::TypeParam& t : kernel.types)
      if (t.is_fn && !bound.count(t.name.text))
        return Refuse(instance.of.span,
                      fmt::format("`{}` wants a function `{}`", instance.of.text, t.name.text))
            .Label(t.span, "declared here")
            .Help(fmt::format("write `{}<{} = NAME>`", instance.of.text, t.name.text));
    lang::Ast& ast = program.modules[of.module].ast;
    lang::Item copy = program.item(of);
    lang::KernelItem made = CopyKernel(ast, ast, choice, kernel);
    for (lang::Param& p : added) made.params.push_back(std::move(p));
    made.name = instance.name;
    copy.node = std::move(made);
    const lang::ItemId id = ast.Add(std::move(copy));
    TRY(const std::vector<lang::ItemId> all, InstancesOf(ast, id, diags));
    std::vector<ItemRef> out;
    for (lang::ItemId one : all) out.push_back({of.module, one});
    return out;
  }
};

}  // namespace

bool IsPattern(const lang::Item& item) {
  const auto* kernel = item.As<lang::KernelItem>();
  return kernel && std::any_of(kernel->types.begin(), kernel->types.end(),
                               [](const lang::TypeParam& t) { return t.is_fn; });
}

Result<std::vector<ItemRef>> BindFns(ProgramData& program, int module, lang::ItemId instance,
                                     DiagSink& diags) {
  // A copy: making kernels moves the items of a module.
  const auto item = *program.modules[module].ast.item(instance).As<lang::InstanceItem>();
  return Binder{program, module, item, diags}.Run();
}

}  // namespace tilec::frontend
