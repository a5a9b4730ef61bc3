// Launches: what a grid must fulfil, what its program finds when it begins (arguments, constants, a
// list of what it may reach), and what is said when it ends. Clusters are independent and run on a
// pool of threads (cluster_pool.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "runtime/emulator/cluster_pool.h"
#include "runtime/emulator/emu_device.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/limits.h"

namespace tilec::runtime::emulator {
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

// How many clusters, and what each CTA has of shared memory.
uint64_t SetUpGrid(const LaunchConfig& config, emulator::Launch* launch) {
  const Program& program = *launch->program;
  launch->config = config;
  launch->smem_total =
      config.smem_bytes == 0 ? program.shared_static : program.dynamic_offset + config.smem_bytes;
  uint64_t clusters = 1;
  for (int k = 0; k < 3; ++k) {
    launch->clusters[k] = config.grid[k] / config.cluster[k];
    clusters *= launch->clusters[k];
  }
  return clusters;
}

LaunchStats StatsOf(const emulator::Launch& launch, std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
  LaunchStats stats;
  stats.milliseconds = ms.count();
  stats.warp_instructions = launch.executed.load();
  stats.order_sensitive =
      launch.program->order_sensitive || launch.program->tells_time || launch.float_sums.load();
  return stats;
}

}  // namespace

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
  launch.params = params.data();
  FillConstants(*program, ranks, bank, constants.data());
  launch.constants = constants.data();
  launch.constants_stride = bank;
  const uint64_t clusters = SetUpGrid(config, &launch);
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
  if (stats != nullptr) *stats = StatsOf(launch, begin);
  if (options_.record != nullptr)
    *options_.record = {options_.policy, options_.landing, options_.seed,
                        options_.spurious_try_wait, std::move(pool.execution().clusters)};
  if (ok) return Done();
  if (Checks()) options_.report->Add(FindingOf(fault, launch));
  return SayFault(fault, *emu, entry, diags);
}

}  // namespace tilec::runtime::emulator
