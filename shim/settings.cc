// SPDX-License-Identifier: Apache-2.0
#include "shim/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "support/file.h"

namespace tilec::shim {
namespace {

using Json = nlohmann::ordered_json;
namespace judge = runtime::judge;
using runtime::EmulatorOptions;
using runtime::Landing;
using runtime::Policy;

// A member of the wanted kind, or the default.
template <typename T>
T Get(const Json& json, const char* name, T otherwise) {
  const auto it = json.find(name);
  if (it == json.end()) return otherwise;
  if constexpr (std::is_same_v<T, bool>) {
    return it->is_boolean() ? it->template get<bool>() : otherwise;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return it->is_string() ? it->template get<std::string>() : otherwise;
  } else {
    return it->is_number_integer() ? it->template get<T>() : otherwise;
  }
}

std::vector<std::string> Strings(const Json& json, const char* name) {
  std::vector<std::string> out;
  const auto it = json.find(name);
  if (it == json.end() || !it->is_array()) return out;
  for (const Json& item : *it)
    if (item.is_string()) out.push_back(item.get<std::string>());
  return out;
}

std::optional<judge::Finding> FindingOf(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  judge::Finding f;
  const auto rule = judge::RuleFromId(Get<std::string>(json, "check", ""));
  if (!rule) return std::nullopt;
  f.rule = *rule;
  const auto severity = Get<std::string>(json, "severity", "error");
  f.severity = severity == "hint"          ? judge::Severity::kHint
               : severity == "portability" ? judge::Severity::kPortability
                                           : judge::Severity::kError;
  f.entry = Get<std::string>(json, "entry", "");
  f.message = Get<std::string>(json, "message", "");
  f.missing = Get<std::string>(json, "missing", "");
  f.notes = Strings(json, "notes");
  f.fix = Get<std::string>(json, "fix", "");
  f.seed = Get<uint64_t>(json, "seed", 0);
  f.replay = Get<std::string>(json, "replay", "");
  f.count = Get<uint64_t>(json, "count", 1);
  const auto accesses = json.find("accesses");
  if (accesses == json.end() || !accesses->is_array()) return f;
  for (const Json& a : *accesses) {
    if (!a.is_object()) return std::nullopt;
    judge::Access access;
    access.who = Get<std::string>(a, "who", "");
    access.what = Get<std::string>(a, "what", "");
    access.memory = Get<std::string>(a, "memory", "");
    access.role = Get<std::string>(a, "role", "");
    access.object = Get<std::string>(a, "object", "");
    access.turn = Get<uint64_t>(a, "turn", 0);
    access.site.file = Get<std::string>(a, "file", "");
    access.site.line = Get<int>(a, "line", 0);
    access.site.text = Get<std::string>(a, "instruction", "");
    access.site.source = Get<std::string>(a, "source", "");
    f.accesses.push_back(std::move(access));
  }
  return f;
}

}  // namespace

std::string Print(const Settings& s) {
  const EmulatorOptions& e = s.emulator;
  const runtime::MachineLimits& m = e.machine;
  const Json json = {{"settings", 1},
                     {"exact", e.arithmetic == EmulatorOptions::Arithmetic::kExact},
                     {"policy", Name(e.policy)},
                     {"landing", Name(e.landing)},
                     {"seed", e.seed},
                     {"spurious", e.spurious_try_wait},
                     {"instructions", e.instruction_limit},
                     {"memory", e.memory_limit_bytes},
                     {"numbers", e.check_numbers},
                     {"banks", e.check_banks},
                     {"single", s.single},
                     {"seeds", s.seeds},
                     {"words", s.words},
                     {"machine",
                      {{"name", m.name},
                       {"arch", m.arch},
                       {"smem", m.smem_bytes},
                       {"smem_per_sm", m.smem_bytes_per_sm},
                       {"smem_reserved", m.smem_reserved_bytes},
                       {"registers", m.registers},
                       {"regs_per_thread", m.regs_per_thread},
                       {"named_barriers", m.named_barriers},
                       {"threads_per_sm", m.threads_per_sm},
                       {"ctas_per_sm", m.ctas_per_sm},
                       {"sms", m.sms},
                       {"clusters", m.clusters}}}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Settings> ParseSettings(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || Get<int>(json, "settings", 0) != 1) return std::nullopt;
  Settings s;
  EmulatorOptions& e = s.emulator;
  e.arithmetic = Get(json, "exact", false) ? EmulatorOptions::Arithmetic::kExact
                                           : EmulatorOptions::Arithmetic::kFast;
  const auto policy = runtime::PolicyFromName(Get<std::string>(json, "policy", ""));
  const auto landing = runtime::LandingFromName(Get<std::string>(json, "landing", ""));
  if (!policy || !landing) return std::nullopt;
  e.policy = *policy;
  e.landing = *landing;
  e.seed = Get<uint64_t>(json, "seed", 0);
  e.spurious_try_wait = Get(json, "spurious", false);
  e.instruction_limit = Get<uint64_t>(json, "instructions", 0);
  e.memory_limit_bytes = Get<uint64_t>(json, "memory", e.memory_limit_bytes);
  e.check_numbers = Get(json, "numbers", false);
  e.check_banks = Get(json, "banks", false);
  s.single = Get(json, "single", false);
  s.seeds = std::clamp(Get<int>(json, "seeds", 0), 0, 100000);
  s.words = Get<std::string>(json, "words", "");
  const auto machine = json.find("machine");
  if (machine == json.end() || !machine->is_object()) return s;
  runtime::MachineLimits& m = e.machine;
  m.name = Get(*machine, "name", m.name);
  m.arch = Get(*machine, "arch", m.arch);
  m.smem_bytes = Get(*machine, "smem", m.smem_bytes);
  m.smem_bytes_per_sm = Get(*machine, "smem_per_sm", m.smem_bytes_per_sm);
  m.smem_reserved_bytes = Get(*machine, "smem_reserved", m.smem_reserved_bytes);
  m.registers = Get(*machine, "registers", m.registers);
  m.regs_per_thread = Get(*machine, "regs_per_thread", m.regs_per_thread);
  m.named_barriers = Get(*machine, "named_barriers", m.named_barriers);
  m.threads_per_sm = Get(*machine, "threads_per_sm", m.threads_per_sm);
  m.ctas_per_sm = Get(*machine, "ctas_per_sm", m.ctas_per_sm);
  m.sms = std::max(1u, Get(*machine, "sms", m.sms));
  m.clusters = Get(*machine, "clusters", m.clusters);
  return s;
}

std::string Plan::Words() const {
  std::string out = fmt::format("--policy={} --async={}", Name(policy), Name(landing));
  if (seed != 0) out += fmt::format(" --policy-seed={}", seed);
  if (spurious) out += " --spurious";
  return out;
}

std::vector<Plan> Plans(int seeds) {
  std::vector<Plan> plans = {{Policy::kRunToBlock, Landing::kEarly, 0, false},
                             {Policy::kProducerFirst, Landing::kLate, 0, false},
                             {Policy::kConsumerFirst, Landing::kPoison, 0, false},
                             {Policy::kProducerFirst, Landing::kEarly, 0, true}};
  constexpr Landing kLandings[] = {Landing::kRandom, Landing::kLate, Landing::kPoison,
                                   Landing::kEarly};
  for (int s = 1; s <= seeds; ++s) {
    const auto seed = static_cast<uint64_t>(s);
    plans.push_back({Policy::kRandom, kLandings[s % 4], seed, s % 2 == 1});
    plans.push_back({Policy::kPct, kLandings[(s + 1) % 4], seed, s % 2 == 0});
  }
  return plans;
}

std::optional<std::vector<judge::Finding>> ParseFindings(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return std::nullopt;
  std::vector<judge::Finding> findings;
  for (const Json& item : json) {
    auto f = FindingOf(item);
    if (!f) return std::nullopt;
    findings.push_back(std::move(*f));
  }
  return findings;
}

std::vector<ProcessReport> ReadReports(const std::string& folder) {
  namespace fs = std::filesystem;
  // A process that a program forked off has findings and no counts of its own.
  std::map<std::string, fs::file_time_type> ids;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    for (const std::string_view kind : {"counts.", "findings.", "notes."}) {
      if (name.rfind(kind, 0) != 0) continue;
      const auto time = entry.last_write_time(ignored);
      const auto [it, added] = ids.try_emplace(name.substr(kind.size()), time);
      if (!added) it->second = std::min(it->second, time);
    }
  }
  std::vector<std::pair<fs::file_time_type, std::string>> order;
  for (const auto& [id, time] : ids) order.emplace_back(time, id);
  std::sort(order.begin(), order.end());
  std::vector<ProcessReport> reports;
  uint64_t left = kMostReportBytes;
  std::string text, why;
  const auto read = [&](const std::string& path) {
    if (!ReadFile(path, &text, &why, left)) return false;
    left -= text.size();
    return true;
  };
  for (const auto& [time, id] : order) {
    ProcessReport r;
    if (read(folder + "/counts." + id) && text.size() >= sizeof(Counts)) {
      memcpy(&r.counts, text.data(), sizeof(Counts));
      if (r.counts.magic != Counts::kMagic) r.counts = Counts();
    }
    if (read(folder + "/findings." + id))
      if (auto findings = ParseFindings(text)) r.findings = std::move(*findings);
    if (read(folder + "/notes." + id))
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        r.notes.push_back(text.substr(at, end - at));
        at = end + 1;
      }
    reports.push_back(std::move(r));
  }
  return reports;
}

}  // namespace tilec::shim
