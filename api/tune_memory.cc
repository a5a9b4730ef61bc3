// SPDX-License-Identifier: Apache-2.0
#include "api/tune_memory.h"

#include <charconv>

namespace tilec::api {

std::string TuneKey(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                    const PipelineOptions& options) {
  std::string key = "tune " + ImageKey(loaded, signature.kernel, call, options);
  if (!options.ptxas.empty()) key += " ptxas";
  for (const auto& [name, value] : call.all)
    key += fmt::format(" {}={}", name, frontend::ToText(value));
  return key;
}

std::optional<frontend::Values> KeptTunes(scheduler::SolutionStore& store, const std::string& key) {
  const auto text = store.Get(key);
  if (!text) return std::nullopt;
  frontend::Values values;
  for (size_t at = 0; at < text->size();) {
    const size_t equals = text->find('=', at), end = text->find('\n', at);
    if (equals == std::string::npos || end == std::string::npos || equals > end) break;
    int64_t value = 0;
    std::from_chars(text->data() + equals + 1, text->data() + end, value);
    values[text->substr(at, equals - at)] = value;
    at = end + 1;
  }
  return values;
}

void KeepTunes(scheduler::SolutionStore& store, const std::string& key, const std::string& kernel,
               const frontend::Values& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += fmt::format("{}={}\n", name, frontend::ToText(value));
  store.Put(key, kernel + " tunes", text + "\n");
}

}  // namespace tilec::api
