// SPDX-License-Identifier: Apache-2.0
#include "api/kernel_tunes.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "api/ahead.h"
#include "api/measure.h"
#include "api/measure_launches.h"
#include "api/size_classes.h"
#include "api/solution_cache.h"
#include "api/split.h"
#include "api/tune.h"
#include "api/tune_memory.h"
#include "api/tune_word.h"

namespace tilec {

std::string FactsText(const api::Call& call) {
  std::string text;
  for (const auto& [name, f] : call.facts)
    fmt::format_to(std::back_inserter(text), "{} {} {} {} {} ", name, f.base_align_bytes,
                   f.stride_align_bytes, f.last_contiguous, f.last_dim_align);
  for (const auto& [name, value] : call.statics)
    fmt::format_to(std::back_inserter(text), "{} {}={} ", name, value.index(),
                   frontend::ToText(value));
  return text;
}

namespace {

// What was found out of such tensors with such values compiled in; null: that is not kept.
std::shared_ptr<api::TuneMemory> MemoryFor(KernelState& k, const std::string& facts) {
  if (k.compiler->options.tune != "classes") return nullptr;
  std::lock_guard<std::mutex> lock(k.mutex);
  if (k.memories.size() >= KernelState::kMemories && k.memories.count(facts) == 0)
    k.memories.clear();
  std::shared_ptr<api::TuneMemory>& memory = k.memories[facts];
  if (!memory) memory = std::make_shared<api::TuneMemory>();
  return memory;
}

// What the caller's tensor holds by then; others hold zeros.
api::ContentsOf ContentsAt(const Where& where) {
  if (!where.real) return nullptr;
  return [where](const frontend::ParamInfo&, const runtime::TensorView& view) {
    runtime::Device& device = *where.device->state()->device;
    const api::Storage storage = api::StorageOf(view);
    std::vector<std::byte> bytes(storage.bytes);
    DiagSink quiet;
    if (!device.Synchronize(where.stream, quiet).ok() ||
        !device.CopyOut(bytes.data(), view.data - storage.before, bytes.size(), quiet).ok())
      bytes.clear();
    return bytes;
  };
}

KernelState::Tuned TunedBy(KernelState& k, const api::Call& call, api::Tuning tuning,
                           api::TuneMemory* memory = nullptr) {
  KernelState::Tuned tuned;
  tuned.values = std::move(tuning.values);
  tuned.schedule = std::move(tuning.schedule);
  api::Call with = call;
  with.schedule = tuned.schedule;
  for (const auto& [name, value] : tuned.values) with.statics[name] = with.all[name] = value;
  const scheduler::SplitChoice form =
      api::SplitFor(k.loaded, k.signature, k.compiler->options, with, memory);
  tuned.split = form.ctas;
  tuned.pack = form.pack;
  tuned.share_copies = form.share_copies;
  tuned.stays = form.stays;
  tuned.schedule = api::ScheduleOf(form, tuned.schedule);
  return tuned;
}

Result<KernelState::Tuned> Choose(KernelState& k, const api::Call& call, const std::string& facts,
                                  const Where& where, DiagSink& diags) {
  api::PipelineOptions options = k.compiler->options;
  if (!where.spent) options.choosing_threads = api::ChoosingThreads();  // else all cores are busy
  std::optional<api::SolutionCache> store;
  if (k.compiler->cache) store.emplace(*k.compiler->cache, diags);
  const std::shared_ptr<api::TuneMemory> memory = MemoryFor(k, facts);
  const api::Spending time(where.spent ? &where.spent->choosing : nullptr);
  api::MeasureBy by;
  if (where.device != nullptr) by.device = where.device->state()->device.get();
  by.why_none = "no launch was, and this is none";
  by.cache = k.compiler->cache ? &*k.compiler->cache : nullptr;
  by.remembered = {store ? &*store : nullptr, memory.get()};
  by.contents = ContentsAt(where);
  TRY(api::Tuning tuning, api::TuningFor(k.loaded, k.signature, call, options, by, diags));
  return TunedBy(k, call, std::move(tuning), memory.get());
}

void SetTunes(const KernelState::Tuned& tuned, api::Call* call) {
  for (const auto& [name, value] : tuned.values) call->statics[name] = call->all[name] = value;
  call->split = tuned.split;
  call->pack = tuned.pack;
  call->share_copies = tuned.share_copies;
  call->stays = tuned.stays;
  call->schedule = tuned.schedule;
}

// A choice that stood when a launch went, by the key it is kept by.
struct StoodBefore {
  Device device;
  api::Call call;
  std::string key;
  KernelState::Tuned tuned;
};

// Measures a call that was launched, on the improver's thread. What is faster than what stood is
// compiled and loaded for that call, so that nobody waits for it, and takes its place. `sized`: of
// the class.
void Improve(KernelState& k, const StoodBefore& before, api::Call sized,
             const std::atomic<bool>& stop) {
  DiagSink quiet;  // what does not work here is not what the host asked for
  DeviceState& on = *before.device.state();
  if (on.device->NewStopwatch() == nullptr) return;
  const std::lock_guard<std::mutex> alone(k.compiler->measuring);
  api::MeasureBy by;
  {
    const std::lock_guard<std::mutex> lock(on.mutex);
    if (!on.beside) {
      const auto stream = on.device->NewStream(quiet);
      if (!stream.ok()) return;
      on.beside = *stream;
    }
    by.stream = *on.beside;
  }
  std::string why;
  if (k.compiler->options.tune == "classes") {
    const auto full = api::WithTensors(k.loaded, k.signature, sized, &why);
    if (!full) return;
    sized = *full;
  }
  by.device = on.device.get();
  by.seconds = api::kImproveSeconds;
  by.faster = api::kImproveFaster;
  by.beside = true;
  by.threads = 1;
  by.stop = &stop;
  by.cache = k.compiler->cache ? &*k.compiler->cache : nullptr;
  const api::Measured m =
      api::MeasureTunes(k.loaded, k.signature, sized, k.compiler->options, by, quiet);
  if (stop || !m.why_not.empty() || m.row.us > (1 - api::kImproveFaster) * m.row.model_us) return;
  const KernelState::Tuned tuned = TunedBy(k, sized, {m.row.values, m.row.schedule});
  if (tuned == before.tuned) return;
  api::Call with = before.call;
  SetTunes(tuned, &with);
  if (!LoadedOn(k, {&before.device}, with, quiet).ok()) return;
  const std::lock_guard<std::mutex> lock(k.mutex);
  k.tunes.insert_or_assign(before.key, tuned);
  k.resolved = ResolvedStore();
  ++k.generation;
  k.improved.push_back({api::TextOfSizes(sized), api::TextOf({m.row.values, m.row.schedule}),
                        m.row.us, m.row.model_us});
}

// Once for each choice.
void AskToImprove(KernelState& k, const Device& device, const api::Call& call,
                  const std::string& key, const KernelState::Tuned& tuned) {
  {
    const std::lock_guard<std::mutex> lock(k.mutex);
    if (!k.asked.insert(key).second) return;
  }
  const auto improve =
      [&k, before = StoodBefore{device, call, key, tuned}](const std::atomic<bool>& stop) {
        const bool classes = k.compiler->options.tune == "classes";
        Improve(k, before,
                classes ? api::Representative(*k.loaded.program, k.signature, before.call)
                        : before.call,
                stop);
      };
  if (k.compiler->improver->Add(&k, improve)) return;
  const std::lock_guard<std::mutex> lock(k.mutex);
  k.asked.erase(key);  // another time
}

}  // namespace

Result<bool> Tune(KernelState& k, const Where& where, api::Call* call, DiagSink& diags) {
  const api::PipelineOptions& options = k.compiler->options;
  if (options.tune == "default" && options.schedule != "solve") return false;
  const bool classes = options.tune == "classes", measure = api::Measures(options.tune);
  const std::string facts = FactsText(*call);
  std::string same = facts;
  for (const auto& [name, start] : call->row_starts) same += std::to_string(start) + " ";
  std::optional<KernelState::Tuned> known;
  const auto find = [&](const std::string& sizes) {
    std::lock_guard<std::mutex> lock(k.mutex);
    if (const auto found = k.tunes.find(sizes); found != k.tunes.end()) known = found->second;
  };
  std::string key = same + api::TextOfClass(k.signature, *call);
  const std::string of_all = key;
  if (classes) find(key);
  if (!known) {
    std::optional<api::Call> of_class;
    if (classes) of_class = api::Representative(*k.loaded.program, k.signature, *call);
    const api::Call& sized = of_class ? *of_class : *call;
    std::string sizes = same + api::TextOfSizes(sized);
    if (!classes)  // facts may be about others, too
      for (const auto& [name, value] : sized.all)
        if (!std::holds_alternative<int64_t>(value)) sizes += frontend::ToText(value) + " ";
    const std::string anywhere = sizes;
    std::unique_lock<std::mutex> alone;
    if (measure && where.device != nullptr) {
      sizes += where.device->description();
      alone = std::unique_lock<std::mutex>(k.compiler->measuring);
    }
    key = sizes;
    find(sizes);
    if (!known) {
      TRY(known, Choose(k, sized, facts, where, diags));
      std::lock_guard<std::mutex> lock(k.mutex);
      if (measure && where.device != nullptr) k.tunes.insert_or_assign(anywhere, *known);
      if (!measure || where.device != nullptr)
        known = k.tunes.emplace(std::move(sizes), *known).first->second;
    }
  }
  if (k.compiler->improver && where.device != nullptr && where.launched)
    AskToImprove(k, *where.device, *call, key, *known);
  SetTunes(*known, call);
  return classes && key == of_all;
}

}  // namespace tilec
