// SPDX-License-Identifier: Apache-2.0
#include "frontend/instantiate.h"

#include <set>

#include "frontend/copy_kernel.h"
#include "frontend/internal.h"

namespace tilec::frontend {

namespace {

constexpr size_t kMostInstances = 64;

// Every combination; nullopt after a report.
std::optional<std::vector<KernelChoice>> ChoicesOf(const lang::KernelItem& kernel,
                                                   DiagSink& diags) {
  std::vector<KernelChoice> all(1);
  const int before = diags.errors();
  std::set<std::string> names;
  for (const lang::TypeParam& type : kernel.types) {
    if (ir::DTypeFromSpelling(type.name.text))
      diags.Report(kTypeParam, type.span, type.name.text, "is an element type")
          .Help("choose a name of your own: `T`");
    if (!names.insert(type.name.text).second)
      diags.Report(kTypeParam, type.span, type.name.text, "is declared twice");
    if (type.choices.empty())
      diags.Report(kTypeParam, type.span, type.name.text, "has no choices")
          .Help(fmt::format("write `{} in {{bf16, f16}}`", type.name.text));
    std::vector<KernelChoice> more;
    for (const lang::Name& dtype : type.choices) {
      (void)ResolveDType(dtype, diags);
      for (KernelChoice choice : all) {
        choice.dtypes[type.name.text] = dtype.text;
        choice.suffix += "_" + dtype.text;
        more.push_back(std::move(choice));
      }
    }
    all = std::move(more);
    if (all.size() > kMostInstances) break;
  }
  for (const lang::Param& p : kernel.params) {
    if (!p.optional || all.size() > kMostInstances) continue;
    if (!p.type.has_dims())
      diags.Report(kParamForm, p.span, p.name.text, "is a scalar and `optional`")
          .Help("give it a default: `x: const f32 = 0`");
    const size_t without = all.size();
    for (size_t i = 0; i < without; ++i) {
      KernelChoice with = all[i];
      all[i].given[p.name.text] = false;
      with.given[p.name.text] = true;
      with.suffix += "_" + p.name.text;
      all.push_back(std::move(with));
    }
  }
  if (all.size() > kMostInstances)
    diags
        .Report(kTypeParam, kernel.name.span, kernel.name.text,
                fmt::format("stands for more than {} kernels", kMostInstances))
        .Help("leave choices out, or write two kernels");
  if (diags.errors() > before) return std::nullopt;
  return all;
}

}  // namespace

Result<std::vector<lang::ItemId>> InstancesOf(lang::Ast& ast, lang::ItemId id, DiagSink& diags) {
  const auto* kernel = ast.item(id).As<lang::KernelItem>();
  bool several = kernel && !kernel->types.empty();
  if (kernel)
    for (const lang::Param& p : kernel->params) several |= p.optional;
  if (!several || IsPattern(ast.item(id))) return std::vector{id};
  const std::optional<std::vector<KernelChoice>> choices = ChoicesOf(*kernel, diags);
  if (!choices) return DiagSink::Propagate();
  std::vector<lang::ItemId> out;
  for (const KernelChoice& choice : *choices) {
    lang::Item copy = ast.item(id);  // adding moves items
    copy.node = CopyKernel(ast, ast, choice, std::get<lang::KernelItem>(copy.node));
    out.push_back(ast.Add(std::move(copy)));
  }
  return out;
}

Result<> Instantiate(lang::Ast& ast, DiagSink& diags) {
  std::vector<lang::ItemId> items;
  const int before = diags.errors();
  for (lang::ItemId id : ast.items) {
    const Result<std::vector<lang::ItemId>> all = InstancesOf(ast, id, diags);
    if (all.ok()) items.insert(items.end(), all->begin(), all->end());
  }
  ast.items = std::move(items);
  if (diags.errors() > before) return DiagSink::Propagate();
  return Done();
}

}  // namespace tilec::frontend
