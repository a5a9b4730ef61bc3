// SPDX-License-Identifier: Apache-2.0
#include "api/assembler.h"

#include <thread>

#include "api/diagnostics.h"
#include "api/environment.h"
#include "backend/diagnostics.h"
#include "backend/ptxas.h"

namespace tilec::api {

Result<> Assembler::Use(const std::string& option, DiagSink& diags) {
  if (option == "off") return Done();
  ptxas_ = option == "auto" ? PtxasFromEnvironment() : backend::FindPtxas({.path = option});
  if (!ptxas_.empty()) stamp_ = StampOf(ptxas_);
  if (!ptxas_.empty() || option == "auto") return Done();
  return diags.Report(backend::kPtxasMissing, Span{})
      .Note(fmt::format("ptxas = \"{}\" is no program", option))
      .Help("name another file, or say \"auto\" or \"off\"");
}

MachineCode Assembler::CodeOf(const backend::KernelImage& image, const runtime::Device& device,
                              const runtime::KernelCache* cache, DiagSink& diags) {
  MachineCode code;
  if (ptxas_.empty() || device.kind() != "cuda") return code;
  const std::string isa = device.isa();
  struct Asked {
    const backend::KernelImage* launch = nullptr;
    std::string code = {}, failed = {};
    DiagSink said = {};
  };
  std::vector<Asked> all;
  for (const backend::KernelImage& launch : image.before) all.push_back({&launch});
  all.push_back({&image});
  {
    std::vector<std::jthread> others;  // who waits for a process of its own
    const auto assemble = [&](size_t i) {
      all[i].code = Assemble(*all[i].launch, isa, cache, &all[i].failed, all[i].said);
    };
    for (size_t i = 1; i < all.size(); ++i) others.emplace_back(assemble, i);
    assemble(0);
  }
  for (Asked& asked : all) {  // in the launches' order, whoever was the first
    asked.said.MoveTo(diags);
    if (!asked.failed.empty() && !stopped_.exchange(true))
      diags.Report(kNotAssembled, Span{}, ptxas_, asked.launch->name, asked.failed);
  }
  code.cubin = std::move(all.back().code);
  all.pop_back();
  for (Asked& asked : all) code.before.push_back(std::move(asked.code));
  return code;
}

std::optional<std::string> Assembler::Made(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = made_.find(key);
  return at == made_.end() ? std::nullopt : std::optional(at->second);
}

void Assembler::Keep(const std::string& key, const std::string& cubin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (made_bytes_ + cubin.size() > kMostBytes) made_.clear(), made_bytes_ = 0;
  if (made_.emplace(key, cubin).second) made_bytes_ += cubin.size();
}

std::string Assembler::Assemble(const backend::KernelImage& launch, const std::string& isa,
                                const runtime::KernelCache* cache, std::string* failed,
                                DiagSink& diags) {
  if (stopped_) return "";
  const std::string key =
      runtime::CacheKey().Add("cubin", launch.ptx).Add("for", isa).Add("by", stamp_).Hex();
  if (auto made = Made(key)) return *std::move(made);
  if (cache != nullptr)
    if (auto kept = cache->Get(key, diags)) return *std::move(kept);
  DiagSink quiet;  // the driver says what is wrong with the text, if something is
  auto report = backend::Assemble(launch.ptx, isa, ptxas_, quiet);
  if (!report.ok()) {
    *failed = quiet.all().empty() ? "it failed" : quiet.all()[0].message;
    return "";
  }
  Keep(key, report->cubin);
  if (cache != nullptr)
    cache->Put(key, fmt::format("{} {} code", launch.name, isa), report->cubin, diags);
  return std::move(report->cubin);
}

}  // namespace tilec::api
