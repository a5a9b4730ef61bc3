// Launches: arguments are taken by the sizes that the PTX declares, limits are those of the
// machine, and the first launch of each kind is executed in other orders, too, each in a process of
// its own that begins with the memory as it is and ends with what it found. These run beside each
// other; what is told is the same as if they did not.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

#include "shim/process.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tilec::shim {

Code Process::Arguments(Function* f, void** parameters, void** extra, KernelWork* out) {
  out->function = f;
  out->arguments.clear();
  const auto& wanted = f->facts.parameters;
  const uint8_t* packed = nullptr;
  size_t packed_bytes = 0;
  if (parameters == nullptr && extra != nullptr) {
    // CU_LAUNCH_PARAM_BUFFER_POINTER 1, _SIZE 2, _END 0.
    for (size_t k = 0; k < 8 && extra[k] != nullptr; k += 2) {
      const auto key = reinterpret_cast<uintptr_t>(extra[k]);
      if (key == 1) packed = static_cast<const uint8_t*>(extra[k + 1]);
      if (key == 2 && extra[k + 1] != nullptr) memcpy(&packed_bytes, extra[k + 1], sizeof(size_t));
      if (key != 1 && key != 2) return kInvalidValue;
    }
  }
  if (wanted.empty()) return kOk;
  if (parameters == nullptr && packed == nullptr) {
    Note(fmt::format("`{}` has {} parameters and is launched without arguments", f->name,
                     wanted.size()));
    return kInvalidValue;
  }
  for (size_t k = 0; k < wanted.size(); ++k) {
    const auto [offset, bytes] = wanted[k];
    runtime::KernelArg argument;
    argument.bytes.resize(bytes);
    if (parameters != nullptr) {
      if (parameters[k] == nullptr) return kInvalidValue;
      memcpy(argument.bytes.data(), parameters[k], bytes);
    } else {
      if (uint64_t{offset} + bytes > packed_bytes) {
        Note(fmt::format("`{}`: argument {} ends at byte {}, the buffer of arguments at {}",
                         f->name, k, uint64_t{offset} + bytes, packed_bytes));
        return kInvalidValue;
      }
      memcpy(argument.bytes.data(), packed + offset, bytes);
    }
    out->arguments.push_back(std::move(argument));
  }
  return kOk;
}

Code Process::Attributes(const LaunchAttribute* attributes, uint32_t count, KernelWork* out) {
  if (count != 0 && attributes == nullptr) return kInvalidValue;
  if (count > 64) return kInvalidValue;
  for (uint32_t k = 0; k < count; ++k) {
    LaunchAttribute a;
    memcpy(&a, attributes + k, sizeof a);
    switch (a.id) {
      case LaunchAttribute::kCooperative: out->cooperative = a.value.flag != 0; break;
      case LaunchAttribute::kClusterDimension:
        out->config.cluster[0] = a.value.cluster.x;
        out->config.cluster[1] = a.value.cluster.y;
        out->config.cluster[2] = a.value.cluster.z;
        break;
      case LaunchAttribute::kProgrammaticSerialization:
        out->config.dependent = a.value.flag != 0;
        break;
      default: break;  // preferences; what they choose between is not told apart here
    }
  }
  return kOk;
}

Code Process::FailOf(const DiagSink& diags, const std::string& kernel) {
  for (const Diagnostic& d : diags.all()) {
    if (d.def->severity != Severity::kError) continue;
    const std::string_view code = d.def->code;
    Note(fmt::format("launch of `{}` failed: {}[{}] {}", kernel,
                     d.place.empty() ? "" : d.place + " ", code, d.message));
    if (code == "E624") return kInvalidValue;
    if (code == "E620" || code == "E626" || code == "E627") return kOutOfMemory;
    if (code == "E640" || code == "E642" || code == "E643" || code == "E648")
      return kIllegalAddress;
    if (code == "E641") return kMisaligned;
    if (code == "E645" || code == "E660") return kTimeout;
    if (code == "E651") return kAssert;
    if (code == "E644" || code == "E607") return kIllegalInstruction;
    return kLaunchFailed;
  }
  return kLaunchFailed;
}

runtime::EmulatorOptions Process::OptionsOf(const Plan& plan) const {
  runtime::EmulatorOptions options = settings_.emulator;
  options.policy = plan.policy;
  options.landing = plan.landing;
  options.seed = plan.seed;
  options.spurious_try_wait = plan.spurious;
  return options;
}

uint64_t Process::HashMemory() const {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& [address, block] : blocks_)
    XXH3_64bits_update(&state, reinterpret_cast<const void*>(address), block.bytes);
  return XXH3_64bits_digest(&state);
}

namespace {

// What an execution in another process sends back, before its findings as JSON.
struct Answer {
  uint64_t magic, hash, instructions, ended, order_sensitive;
};
constexpr uint64_t kAnswer = 0x72657773'6e61;

bool WriteAll(int file, const void* data, size_t bytes) {
  const auto* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(file, p, bytes);
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::string ReadAll(int file) {
  std::string out;
  char buffer[1 << 14];
  while (true) {
    const ssize_t n = read(file, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || out.size() > (64u << 20)) return out;
    out.append(buffer, static_cast<size_t>(n));
  }
}

std::string KindOf(const KernelWork& work) {
  const runtime::LaunchConfig& c = work.config;
  return fmt::format("{} {} {},{},{} {},{},{} {},{},{} {}", work.function->library->name,
                     work.function->name, c.grid[0], c.grid[1], c.grid[2], c.block[0], c.block[1],
                     c.block[2], c.cluster[0], c.cluster[1], c.cluster[2], c.smem_bytes);
}

}  // namespace

// In a fork: executes the launch by one plan and sends the answer.
void Process::Execute(const KernelWork& work, const Plan& plan, int answer_to) {
  report_->Clear();
  report_->SetReplay(fmt::format("tilec check {} {}", plan.Words(), settings_.words));
  runtime::EmulatorOptions options = OptionsOf(plan);
  options.print = nullptr;
  runtime::ChangeOptions(*device_, options);
  DiagSink diags;
  runtime::LaunchStats stats;
  const bool ok = device_
                      ->Launch(*work.function->library->module, work.function->name, work.config,
                               work.arguments, 0, &stats, diags)
                      .ok();
  const Answer answer = {kAnswer, ok ? HashMemory() : 0, stats.warp_instructions, ok,
                         stats.order_sensitive};
  const std::string found = runtime::judge::ToJson(report_->findings());
  if (WriteAll(answer_to, &answer, sizeof answer)) WriteAll(answer_to, found.data(), found.size());
}

// Executes the launch by every plan but the first, each in a fork, as many at a time as there are
// threads. Answers are taken in the order of the plans, so what is told does not depend on how many
// run beside each other; one whose turn has not come waits with its answer in the pipe.
Code Process::Explore(const KernelWork& work, std::vector<uint64_t>* hashes,
                      std::vector<std::string>* words) {
  struct Child {
    pid_t id;
    int from;
  };
  const std::vector<Plan> plans = Plans(settings_.seeds);
  const int threads = settings_.emulator.threads;
  const size_t most = std::clamp<size_t>(
      threads > 0 ? static_cast<size_t>(threads) : std::thread::hardware_concurrency(), 1, 64);
  std::deque<Child> children;
  size_t begun = 1;
  for (size_t k = 1; k < plans.size(); ++k) {
    while (begun < plans.size() && children.size() < most) {
      int ends[2];
      if (pipe(ends) != 0) break;
      const pid_t id = fork();
      if (id == 0) {
        close(ends[0]);
        for (const Child& other : children) close(other.from);
        Execute(work, plans[begun], ends[1]);
        _exit(0);
      }
      close(ends[1]);
      if (id < 0) {
        close(ends[0]);
        break;
      }
      children.push_back({id, ends[0]});
      ++begun;
    }
    if (children.empty()) {
      Note("no process could be made: launches are executed in one order only");
      return kOk;
    }
    const Child child = children.front();
    children.pop_front();
    const std::string told = ReadAll(child.from);
    close(child.from);
    int status = 0;
    while (waitpid(child.id, &status, 0) < 0 && errno == EINTR) {
    }
    Answer answer{};
    if (told.size() >= sizeof answer) memcpy(&answer, told.data(), sizeof answer);
    if (answer.magic != kAnswer) {
      Note(fmt::format("an execution of `{}` with {} ended without a word (status {})",
                       work.function->name, plans[k].Words(), status));
      continue;
    }
    ++counts_->executions;
    counts_->warp_instructions += answer.instructions;
    if (auto found = ParseFindings(std::string_view(told).substr(sizeof answer)))
      for (runtime::judge::Finding& f : *found) report_->Add(std::move(f));
    if (answer.ended != 0 && answer.order_sensitive == 0) {
      hashes->push_back(answer.hash);
      words->push_back(plans[k].Words());
    }
  }
  return kOk;
}

Code Process::Launch(const KernelWork& work) {
  if (sticky_ != kOk) return sticky_;
  Function* f = FunctionOf(work.function);
  if (f == nullptr) return kInvalidHandle;
  const runtime::LaunchConfig& c = work.config;
  if (c.smem_bytes > f->most_dynamic) {
    Note(
        fmt::format("`{}` is launched with {} bytes of dynamic shared memory and may have {}: "
                    "cudaFuncSetAttribute(…, cudaFuncAttributeMaxDynamicSharedMemorySize, …)",
                    f->name, c.smem_bytes, f->most_dynamic));
    return kInvalidValue;
  }
  const uint64_t ctas = uint64_t{c.cluster[0]} * c.cluster[1] * c.cluster[2];
  if (ctas > 8 && !f->non_portable) {
    Note(fmt::format("`{}`: a cluster of {} CTAs needs the attribute NonPortableClusterSizeAllowed",
                     f->name, ctas));
    return kInvalidValue;
  }
  const uint64_t threads = uint64_t{c.block[0]} * c.block[1] * c.block[2];
  const uint64_t grid = uint64_t{c.grid[0]} * c.grid[1] * c.grid[2];
  if (work.cooperative && threads <= 1024) {
    const uint64_t room =
        static_cast<uint64_t>(BlocksPerSm(f, static_cast<int>(threads), c.smem_bytes)) *
        machine().sms;
    if (grid > room) {
      Note(fmt::format("`{}`: a cooperative grid of {} CTAs, {} has room for {} at a time", f->name,
                       grid, machine().name, room));
      return kTooLargeCooperative;
    }
  }
  runtime::LaunchConfig config = c;
  for (int k = 0; k < 3; ++k)
    if (f->facts.required_cluster[0] != 0 && ctas == 1)
      config.cluster[k] = std::max(1u, f->facts.required_cluster[k]);
  KernelWork now = work;
  now.config = config;
  std::vector<uint64_t> hashes;
  std::vector<std::string> words;
  const bool explores = !settings_.single && !folder_.empty();
  if (explores && explored_.insert(KindOf(now)).second) {
    ++counts_->kernels;
    Explore(now, &hashes, &words);
  }
  const Plan plan = {settings_.emulator.policy, settings_.emulator.landing, settings_.emulator.seed,
                     settings_.emulator.spurious_try_wait};
  report_->SetReplay(fmt::format("tilec check {} {}", plan.Words(), settings_.words));
  DiagSink diags;
  runtime::LaunchStats stats;
  const bool ok =
      device_->Launch(*f->library->module, f->name, config, now.arguments, 0, &stats, diags).ok();
  ++counts_->launches;
  ++counts_->executions;
  counts_->warp_instructions += stats.warp_instructions;
  if (ok && !hashes.empty() && !stats.order_sensitive) {
    const uint64_t own = HashMemory();
    for (size_t k = 0; k < hashes.size(); ++k) {
      if (hashes[k] == own) continue;
      ++counts_->different;
      Note(fmt::format("wrong: `{}` leaves other bytes in memory with {} than with {}", f->name,
                       words[k], plan.Words()));
      break;
    }
  }
  WriteFindings();
  if (ok) return kOk;
  ++counts_->faults;
  const Code code = FailOf(diags, f->name);
  // A launch that was refused did nothing; a fault stays, as it does on a GPU.
  if (code != kInvalidValue && code != kOutOfMemory) sticky_ = code;
  return code;
}

}  // namespace tilec::shim
