// The emulator as a Device: memory, modules, launches on a pool of threads.
//
// Device memory is host memory, in blocks with redzones around them, so that an address is a host
// pointer and a stray one is outside every entry of the table. A launch holds the table: memory
// cannot be freed under a running kernel.
//
// Clusters are independent and run on a pool (cluster_pool.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "runtime/emulator/cluster_pool.h"
#include "runtime/emulator/decode.h"
#include "runtime/emulator/device_memory.h"
#include "runtime/emulator/fences.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/inspect.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/limits.h"
#include "runtime/emulator/services.h"
#include "runtime/emulator/slices.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime {
namespace emulator {
namespace {

// The constants of each CTA of a cluster: they differ in addresses of shared memory.
void FillConstants(const Program& program, uint32_t ranks, uint64_t bank, uint8_t* to) {
  if (program.constants.empty()) return;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint8_t* at = to + rank * bank;
    memcpy(at, program.constants.data(), program.constants.size());
    for (auto [offset, wide] : program.shared_addresses)
      for (uint32_t l = 0; l < 32; ++l)
        at[offset + l * (wide ? 8 : 4) + 3] |= static_cast<uint8_t>(rank);
  }
}

// Addresses among initial values, now that every variable has its place.
void WriteAddresses(const PtxModule& module) {
  for (const Variable& v : module.variables)
    for (const Variable::Address& a : v.addresses) {
      const uint64_t value =
          a.addend + (a.variable >= 0 ? module.variables[static_cast<size_t>(a.variable)].offset
                                      : FunctionAddress(a.function));
      if (a.at + sizeof value <= v.bytes)
        memcpy(reinterpret_cast<uint8_t*>(v.offset) + a.at, &value, sizeof value);
    }
}

bool NeedsHeap(const PtxModule& module) {
  return std::any_of(module.function_names.begin(), module.function_names.end(),
                     [](const auto& f) { return f.body < 0 && f.name == "malloc"; });
}

// The arguments of a launch, where the program looks for them.
Result<> FillParams(const Program& program, const std::vector<KernelArg>& args, uint8_t* to,
                    DiagSink& diags) {
  for (size_t k = 0; k < args.size(); ++k) {
    auto [offset, bytes] = program.params[k];
    if (args[k].bytes.size() != bytes)
      return diags.Report(kBadArguments, {}, program.name,
                          fmt::format("argument {} has {} bytes, the parameter {}", k,
                                      args[k].bytes.size(), bytes));
    if (bytes > 0) memcpy(to + offset, args[k].bytes.data(), bytes);
  }
  return Done();
}

// What a launch may reach, in order of addresses, as the heap has them: a program may have
// thousands, and launch often.
void ListAllocations(const Heap& heap, const Allocation& parameters, emulator::Launch* launch) {
  std::vector<Allocation>& all = launch->allocations;
  all.reserve(heap.blocks.size() + 1);
  for (const auto& [address, block] : heap.blocks)
    all.push_back({address, address + block.size, block.read_only});
  all.insert(
      std::upper_bound(all.begin(), all.end(), parameters,
                       [](const Allocation& a, const Allocation& b) { return a.begin < b.begin; }),
      parameters);
}

Result<> SayFault(const Fault& fault, const EmuModule& module, const std::string& entry,
                  DiagSink& diags) {
  DiagBuilder report = diags.ReportText(*fault.def, {}, fault.message);
  module.places.At(report, fault.line);
  report.Note(fmt::format("in entry `{}`", entry));
  for (const std::string& note : fault.notes) report.Note(note);
  for (const std::string& help : fault.helps) report.Help(help);
  return DiagSink::Propagate();
}

class EmuDevice : public Device {
 public:
  explicit EmuDevice(const EmulatorOptions& options)
      : options_(options), state_(std::make_shared<State>()) {}

  std::string kind() const override { return "emulator"; }
  std::string description() const override {
    return fmt::format(
        "PTX emulator, {} tensor-core arithmetic, {} thread(s)",
        options_.arithmetic == EmulatorOptions::Arithmetic::kExact ? "exact" : "fast", Threads());
  }
  std::string isa() const override {
    return options_.machine.arch.empty() ? "sm_90a" : options_.machine.arch;
  }

  Result<DeviceAddress> Alloc(uint64_t bytes, DiagSink& diags) override {
    std::unique_lock lock(state_->mutex);
    return state_->heap.Add(std::max<uint64_t>(bytes, 1), false, options_.memory_limit_bytes,
                            diags);
  }
  void Free(DeviceAddress address) override {
    std::unique_lock lock(state_->mutex);
    Forget(address);
    state_->heap.Remove(address);
  }
  Result<> CopyIn(DeviceAddress to, const void* from, uint64_t bytes, DiagSink& diags) override {
    std::shared_lock lock(state_->mutex);
    if (!state_->heap.Contains(to, bytes))
      return diags.Report(kBadHostCopy, {}, "a copy to the device", bytes, to);
    if (bytes > 0) memcpy(reinterpret_cast<void*>(to), from, bytes);
    Written(to, bytes);
    return Done();
  }
  Result<> CopyOut(void* to, DeviceAddress from, uint64_t bytes, DiagSink& diags) override {
    std::shared_lock lock(state_->mutex);
    if (!state_->heap.Contains(from, bytes))
      return diags.Report(kBadHostCopy, {}, "a copy from the device", bytes, from);
    if (bytes > 0) memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return Done();
  }
  Result<> Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, DiagSink& diags) override {
    std::shared_lock lock(state_->mutex);
    if (!state_->heap.Contains(to, bytes))
      return diags.Report(kBadHostCopy, {}, "a fill", bytes, to);
    if (bytes > 0) memset(reinterpret_cast<void*>(to), byte, bytes);
    Written(to, bytes);
    return Done();
  }

  Result<std::unique_ptr<Module>> Load(const std::string& ptx, const LoadOptions& options,
                                       DiagSink& diags) override {
    auto module = std::make_unique<EmuModule>();
    module->state = state_;
    module->places = {options.name, options.lines, options.roles, options.shared};
    TRY(std::unique_ptr<PtxModule> parsed, ParsePtx(ptx, module->places, diags));
    TRY_VOID(CheckFeatures(*parsed, options_.machine, module->places, diags));
    if (module->places.notes.empty()) module->places.notes = std::move(parsed->notes);
    {
      std::unique_lock lock(state_->mutex);
      for (Variable& v : parsed->variables) {
        if (v.space != Space::kGlobal && v.space != Space::kConst) continue;
        TRY(v.offset, state_->heap.Add(std::max<uint64_t>(v.bytes, 1), v.space == Space::kConst,
                                       options_.memory_limit_bytes, diags));
        Written(v.offset, v.bytes);  // zero if nothing else is said
        if (!v.init.empty())
          memcpy(reinterpret_cast<void*>(v.offset), v.init.data(),
                 std::min<size_t>(v.init.size(), v.bytes));
        module->variables.push_back(v.offset);
        module->facts.push_back({std::string(v.name), v.offset, v.bytes, v.space == Space::kConst});
      }
      WriteAddresses(*parsed);
      if (NeedsHeap(*parsed) && state_->device_heap.base == 0) {
        TRY(state_->device_heap.base,
            state_->heap.Add(DeviceHeap::kBytes, false, options_.memory_limit_bytes, diags));
      }
      if (ptx.find("%envreg") != std::string::npos) {
        TRY(module->workspace,
            state_->heap.Add(kWorkspace, false, options_.memory_limit_bytes, diags));
        module->variables.push_back(module->workspace);
      }
    }
    for (const Entry& entry : parsed->entries) {
      Decoder decoder(*parsed, entry, module->places, diags);
      auto program = decoder.Run();
      if (!program.ok()) return DiagSink::Propagate();
      module->programs.push_back(std::move(*program));
    }
    return std::unique_ptr<Module>(std::move(module));
  }

  Result<TensorMap> EncodeTensorMap(const TensorMapDesc& desc, DiagSink& diags) override {
    return emulator::EncodeTensorMap(desc, diags);
  }

  Result<StreamId> NewStream(DiagSink&) override {
    std::unique_lock lock(state_->mutex);
    return ++streams_;
  }
  Result<> Synchronize(StreamId, DiagSink&) override { return Done(); }

  Result<> Launch(const Module& module, const std::string& entry, const LaunchConfig& config,
                  const std::vector<KernelArg>& args, StreamId, LaunchStats* stats,
                  DiagSink& diags) override;
  void Change(const EmulatorOptions& options) { options_ = options; }

 private:
  int Threads() const {
    int n = options_.threads > 0 ? options_.threads
                                 : static_cast<int>(std::thread::hardware_concurrency());
    return std::clamp(n, 1, 64);
  }
  Result<> CheckLaunch(const Program& p, const LaunchConfig& c, DiagSink& diags) const;
  bool Checks() const {
    return options_.check == EmulatorOptions::Check::kOn && options_.report != nullptr;
  }
  void Written(uint64_t address, uint64_t bytes) {
    if (!Checks()) return;
    std::lock_guard lock(state_->judge_mutex);
    state_->written.Add(address, address + bytes);
  }
  void Forget(uint64_t address) {
    auto it = state_->heap.blocks.find(address);
    if (!Checks() || it == state_->heap.blocks.end()) return;
    std::lock_guard lock(state_->judge_mutex);
    state_->written.Remove(address, address + it->second.size);
  }

  EmulatorOptions options_;
  std::shared_ptr<State> state_;
  StreamId streams_ = 0;
};

Result<> EmuDevice::CheckLaunch(const Program& p, const LaunchConfig& c, DiagSink& diags) const {
  auto bad = [&](const std::string& why) {
    if (Checks()) {
      judge::Finding f;
      f.rule = judge::Rule::kR2;
      f.entry = p.name;
      f.message = why;
      f.seed = options_.seed;
      options_.report->Add(std::move(f));
    }
    return diags.Report(kBadLaunch, {}, p.name, why);
  };
  constexpr uint32_t kMaxGrid[3] = {0x7fffffff, 65535, 65535}, kMaxBlock[3] = {1024, 1024, 64};
  uint64_t threads = 1, cluster = 1;
  for (int k = 0; k < 3; ++k) {
    if (c.grid[k] == 0 || c.grid[k] > kMaxGrid[k])
      return bad(
          fmt::format("grid extent {} is {}, the range is 1 to {}", k, c.grid[k], kMaxGrid[k]));
    if (c.block[k] == 0 || c.block[k] > kMaxBlock[k])
      return bad(
          fmt::format("block extent {} is {}, the range is 1 to {}", k, c.block[k], kMaxBlock[k]));
    if (c.cluster[k] == 0 || c.cluster[k] > 16 || c.grid[k] % c.cluster[k] != 0)
      return bad(fmt::format("grid extent {} is {}, no multiple of the cluster's {}", k, c.grid[k],
                             c.cluster[k]));
    if (p.reqntid[0] != 0 && c.block[k] != p.reqntid[k])
      return bad(
          fmt::format("block extent {} is {}, the entry requires {}", k, c.block[k], p.reqntid[k]));
    if (p.reqcluster[0] != 0 && c.cluster[k] != p.reqcluster[k])
      return bad(fmt::format("cluster extent {} is {}, the entry requires {}", k, c.cluster[k],
                             p.reqcluster[k]));
    threads *= c.block[k];
    cluster *= c.cluster[k];
  }
  if (threads > 1024) return bad(fmt::format("{} threads per CTA, the limit is 1024", threads));
  uint64_t most = uint64_t{p.maxntid[0]} * p.maxntid[1] * p.maxntid[2];
  if (most != 0 && threads > most)
    return bad(fmt::format("{} threads per CTA, the entry allows {}", threads, most));
  if (cluster > 16) return bad(fmt::format("{} CTAs per cluster, the limit is 16", cluster));
  if (std::string why = Exceeds(options_.machine, p, c); !why.empty()) return bad(why);
  return Done();
}

Result<> EmuDevice::Launch(const Module& module, const std::string& entry,
                           const LaunchConfig& config, const std::vector<KernelArg>& args, StreamId,
                           LaunchStats* stats, DiagSink& diags) {
  const auto* emu = dynamic_cast<const EmuModule*>(&module);
  if (emu == nullptr || emu->state != state_)
    return diags.Report(kBadLaunch, {}, entry, "the module was loaded by another device");
  const Program* program = emu->Find(entry);
  if (program == nullptr) return diags.Report(kNoEntry, {}, entry);
  TRY_VOID(CheckLaunch(*program, config, diags));
  if (args.size() != program->params.size())
    return diags.Report(
        kBadArguments, {}, entry,
        fmt::format("{} arguments for {} parameters", args.size(), program->params.size()));
  uint64_t param_bytes = std::max<uint64_t>(program->param_bytes, 1);
  const uint64_t bank = (program->constants.size() + 127) / 64 * 64;
  const uint32_t ranks = config.cluster[0] * config.cluster[1] * config.cluster[2];
  HostMemory params(param_bytes), constants(bank * ranks);
  if (!params.ok() || !constants.ok()) return diags.Report(kNoHostMemory, {}, param_bytes);
  TRY_VOID(FillParams(*program, args, params.data(), diags));

  auto begin = std::chrono::steady_clock::now();
  std::shared_lock lock(state_->mutex);
  emulator::Launch launch;
  launch.program = program;
  launch.places = &emu->places;
  launch.options = &options_;
  launch.heap = &state_->device_heap;
  launch.workspace = emu->workspace;
  if (launch.workspace != 0) {
    memset(reinterpret_cast<void*>(launch.workspace), 0, kWorkspace);
    Written(launch.workspace, kWorkspace);
  }
  launch.config = config;
  launch.params = params.data();
  FillConstants(*program, ranks, bank, constants.data());
  launch.constants = constants.data();
  launch.constants_stride = bank;
  launch.smem_total =
      config.smem_bytes == 0 ? program->shared_static : program->dynamic_offset + config.smem_bytes;
  uint64_t clusters = 1;
  for (int k = 0; k < 3; ++k) {
    launch.clusters[k] = config.grid[k] / config.cluster[k];
    clusters *= launch.clusters[k];
  }
  const uint64_t params_at = reinterpret_cast<uint64_t>(params.data());
  ListAllocations(state_->heap, {params_at, params_at + program->param_bytes, true}, &launch);

  const bool in_order = program->order_sensitive || program->tensor_sums;
  int threads = in_order || Checks() || program->cancels ? 1 : Threads();
  if (static_cast<uint64_t>(threads) > clusters) threads = static_cast<int>(clusters);
  std::unique_lock<std::mutex> checking;
  // Registers, shared and local memory come out of the same budget as device memory.
  const uint64_t each = ClusterBytes(launch), used = state_->heap.used;
  const uint64_t room = options_.memory_limit_bytes - std::min(used, options_.memory_limit_bytes);
  if (each > room)
    return diags.Report(kOutOfMemory, {}, each, used, options_.memory_limit_bytes)
        .Note(fmt::format("one cluster of `{}`: registers, shared and local memory of {} threads",
                          program->name,
                          uint64_t{config.block[0]} * config.block[1] * config.block[2] *
                              config.cluster[0] * config.cluster[1] * config.cluster[2]));
  threads = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(threads), room / each));
  std::unique_ptr<judge::LaunchJudge> judge;
  if (Checks()) {
    checking = std::unique_lock(state_->judge_mutex);
    state_->written.Add(params_at, params_at + program->param_bytes);
    judge = std::make_unique<judge::LaunchJudge>(options_.report.get(), &state_->written);
    judge->global.Limit(options_.memory_limit_bytes);
    SetUpJudge(launch, judge.get());
  }
  Fault fault;
  Pool pool(&launch, clusters, threads, room / static_cast<uint64_t>(threads));
  bool ok = pool.Run(&fault);
  if (judge != nullptr) {
    judge->global.Finish();
    state_->written.Remove(params_at, params_at + program->param_bytes);
    judge = nullptr;  // tells the report
    checking.unlock();
  }
  if (stats != nullptr) {
    std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    stats->milliseconds = ms.count();
    stats->warp_instructions = launch.executed.load();
    stats->order_sensitive =
        program->order_sensitive || program->tells_time || launch.float_sums.load();
  }
  if (options_.record != nullptr)
    *options_.record = {options_.policy, options_.landing, options_.seed,
                        options_.spurious_try_wait, std::move(pool.execution().clusters)};
  if (ok) return Done();
  if (Checks()) options_.report->Add(FindingOf(fault, launch));
  return SayFault(fault, *emu, entry, diags);
}

const Program* Find(const Module& module, const std::string& entry) {
  const auto* emu = dynamic_cast<const EmuModule*>(&module);
  return emu == nullptr ? nullptr : emu->Find(entry);
}

}  // namespace
}  // namespace emulator

std::optional<EntryFacts> FactsOf(const Module& module, const std::string& entry) {
  const emulator::Program* p = emulator::Find(module, entry);
  if (p == nullptr) return std::nullopt;
  EntryFacts facts;
  facts.parameters = p->params;
  facts.shared_bytes = p->shared_static;
  facts.local_bytes = p->local_bytes;
  facts.registers = p->maxnreg;
  for (int k = 0; k < 3; ++k) {
    facts.required_block[k] = p->reqntid[k];
    facts.most_block[k] = p->maxntid[k];
    facts.required_cluster[k] = p->reqcluster[k];
  }
  return facts;
}

std::vector<VariableFacts> VariablesOf(const Module& module) {
  const auto* emu = dynamic_cast<const emulator::EmuModule*>(&module);
  return emu == nullptr ? std::vector<VariableFacts>() : emu->facts;
}

bool ChangeOptions(Device& device, const EmulatorOptions& options) {
  auto* emu = dynamic_cast<emulator::EmuDevice*>(&device);
  if (emu == nullptr) return false;
  emu->Change(options);
  return true;
}

std::unique_ptr<Device> OpenEmulator(const EmulatorOptions& options) {
  return std::make_unique<emulator::EmuDevice>(options);
}

}  // namespace tilec::runtime
