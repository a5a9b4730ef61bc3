// SPDX-License-Identifier: Apache-2.0
#include "api/stdlib.h"

#include "api/diagnostics.h"
#include "support/file.h"
#include "support/nearest.h"

namespace tilec::api {

namespace {

constexpr std::string_view kPrefix = "std/", kSuffix = ".tile";
constexpr uint64_t kMaxSourceBytes = 16 << 20;

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}
bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

}  // namespace

std::optional<frontend::ImportedText> StandardLibrary::Find(const std::string& module) const {
  if (!StartsWith(module, kPrefix)) return std::nullopt;
  std::string name = module.substr(kPrefix.size());
  if (!EndsWith(name, kSuffix)) name += kSuffix;
  if (!directory_.empty()) {
    frontend::ImportedText found{directory_ + "/" + name, ""};
    std::string why;
    if (!ReadFile(found.path, &found.text, &why, kMaxSourceBytes)) return std::nullopt;
    return found;
  }
  for (int i = 0; i < kEmbeddedStdlibCount; ++i)
    if (name == kEmbeddedStdlib[i].name)
      return frontend::ImportedText{std::string(kPrefix) + name, kEmbeddedStdlib[i].text};
  return std::nullopt;
}

std::vector<std::string> StandardLibrary::modules() const {
  std::vector<std::string> names;
  for (int i = 0; i < kEmbeddedStdlibCount; ++i) {
    const std::string name = kEmbeddedStdlib[i].name;
    names.push_back(std::string(kPrefix) + name.substr(0, name.size() - kSuffix.size()));
  }
  return names;
}

frontend::ImportResolver StandardLibrary::Resolver() const {
  return {[library = *this](const std::string& module) { return library.Find(module); }, modules()};
}

Result<frontend::Program> LoadProgram(SourceMap& sources, const std::string& path,
                                      const StandardLibrary& library, DiagSink& diags) {
  if (StartsWith(path, kPrefix)) {
    const auto found = library.Find(path);
    if (found)
      return frontend::Program::LoadText(sources, found->path, found->text, library.Resolver(),
                                         diags);
    // Not ours: a folder of that name may exist.
    std::string text, why;
    if (!ReadFile(path, &text, &why, kMaxSourceBytes)) {
      DiagBuilder d = diags.Report(kNoStdModule, Span{}, path);
      const std::string near =
          NearestName(EndsWith(path, kSuffix) ? path.substr(0, path.size() - kSuffix.size()) : path,
                      library.modules());
      if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
      return d;
    }
  }
  return frontend::Program::Load(sources, path, library.Resolver(), diags);
}

}  // namespace tilec::api
