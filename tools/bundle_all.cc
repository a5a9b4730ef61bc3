// SPDX-License-Identifier: Apache-2.0
#include "tools/bundle_all.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

constexpr std::string_view kEvery = ":*";

Result<> AddAll(Session& session, const Wanted& wanted, std::vector<Wanted>* out) {
  DiagSink& diags = session.diags();
  const std::string file = wanted.file.substr(0, wanted.file.size() - kEvery.size());
  if (!wanted.choices.empty())
    return diags
        .Report(kUsage, Span{}, fmt::format("`{}` takes its values from tests", wanted.file))
        .Place("command line")
        .Help(fmt::format("name a kernel for values of your own: {}:KERNEL", file));
  TRY_VOID(session.LoadFile(file));
  const frontend::Program& program = *session.loaded().program;
  std::set<std::string> seen;
  // By where a kernel stands: one of several types is one text, and what tests call one instance
  // with suits those that they do not call.
  std::map<std::pair<int32_t, uint32_t>, std::vector<Wanted>> instances;
  std::vector<std::string> not_called;
  const auto place_of = [](const frontend::Signature& signature) {
    return std::pair(static_cast<int32_t>(signature.at.file),
                     static_cast<uint32_t>(signature.at.begin));
  };
  for (const std::string& kernel : program.own_kernels()) {
    const size_t before = out->size();
    for (const frontend::TestInfo& test : program.tests())
      for (const frontend::TestCallInfo& call : test.calls) {
        if (call.kernel != kernel) continue;
        TRY(const frontend::Signature signature, frontend::SignatureOf(program, kernel, diags));
        Wanted one{fmt::format("{}:{}", file, kernel), {}};
        std::string key = kernel;
        for (const auto& [name, value] : call.args) {
          if (!signature.IsStatic(name) || signature.tune(name) != nullptr) continue;
          one.choices.push_back({fmt::format("{}={}", name, frontend::ToText(value))});
          key += " " + one.choices.back().front();
        }
        if (!seen.insert(key).second) continue;
        instances[place_of(signature)].push_back(one);
        out->push_back(std::move(one));
      }
    if (out->size() == before) not_called.push_back(kernel);
  }
  std::string uncalled;
  for (const std::string& kernel : not_called) {
    TRY(const frontend::Signature signature, frontend::SignatureOf(program, kernel, diags));
    const size_t before = out->size();
    for (const Wanted& like : instances[place_of(signature)]) {
      std::string key = kernel;
      for (const auto& choice : like.choices) key += " " + choice.front();
      if (seen.insert(key).second)
        out->push_back({fmt::format("{}:{}", file, kernel), like.choices});
    }
    if (out->size() == before) uncalled += (uncalled.empty() ? "" : ", ") + kernel;
  }
  if (seen.empty())
    return diags.Report(kUsage, Span{}, fmt::format("no test of `{}` calls a kernel of it", file))
        .Place("command line")
        .Help(fmt::format("name a kernel and its values: {}:KERNEL NAME=VALUE", file));
  if (!uncalled.empty()) fmt::print(stderr, "{}: no test calls {}, left out\n", file, uncalled);
  return Done();
}

}  // namespace

Result<std::vector<Wanted>> WithEveryKernel(Session& session, const std::vector<Wanted>& wanted) {
  std::vector<Wanted> out;
  for (const Wanted& w : wanted) {
    if (!w.file.ends_with(kEvery))
      out.push_back(w);
    else
      TRY_VOID(AddAll(session, w, &out));
  }
  return out;
}

}  // namespace tilec::tools
