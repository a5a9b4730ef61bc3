// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tilec::conformance {
namespace {

using namespace runtime;  // NOLINT: a test program

std::string Text(const DiagSink& diags) {
  SourceMap sources;
  std::string text = RenderAll(diags, sources);
  return text.substr(0, 600);
}

Output RunOne(Device& device, const Module& module, const std::string& entry, const Case& c) {
  Output o;
  DiagSink diags;
  const uint64_t threads = uint64_t{c.ctas} * c.threads;
  std::vector<uint8_t> in = Inputs(c), mem = Memory();
  const uint64_t out_bytes = threads * c.out_bytes;
  auto fail = [&] {
    o.error = Text(diags);
    return o;
  };
  std::vector<DeviceAddress> all;
  auto alloc = [&](uint64_t bytes) {
    auto a = device.Alloc(bytes, diags);
    if (!a.ok()) return DeviceAddress{0};
    all.push_back(*a);
    return *a;
  };
  const DeviceAddress at_in = alloc(in.size()), at_out = alloc(out_bytes),
                      at_mem = alloc(mem.size());
  auto run = [&]() -> Result<> {
    TRY_VOID(device.CopyIn(at_in, in.data(), in.size(), diags));
    TRY_VOID(device.Fill(at_out, 0, out_bytes, diags));
    TRY_VOID(device.CopyIn(at_mem, mem.data(), mem.size(), diags));
    LaunchConfig config;
    config.grid[0] = c.ctas;
    config.block[0] = c.threads;
    config.cluster[0] = c.cluster;
    std::vector<KernelArg> args = {KernelArg::Of(at_in), KernelArg::Of(at_out),
                                   KernelArg::Of(at_mem)};
    for (TensorMapDesc map : c.maps) {
      map.base += at_mem;
      TRY(const TensorMap encoded, device.EncodeTensorMap(map, diags));
      args.push_back(KernelArg::Of(encoded));
    }
    TRY_VOID(device.Launch(module, entry, config, args, 0, nullptr, diags));
    TRY_VOID(device.Synchronize(0, diags));
    o.bytes.resize(out_bytes + (c.uses_memory ? mem.size() : 0));
    TRY_VOID(device.CopyOut(o.bytes.data(), at_out, out_bytes, diags));
    if (c.uses_memory)
      TRY_VOID(device.CopyOut(o.bytes.data() + out_bytes, at_mem, mem.size(), diags));
    return Done();
  };
  const bool ok = all.size() == 3 && run().ok();
  for (DeviceAddress a : all) device.Free(a);
  if (!ok) return fail();
  o.ran = true;
  return o;
}

std::string ModuleOf(const std::vector<Case>& cases, size_t begin, size_t end) {
  std::string text = ModuleHeader();
  for (size_t k = begin; k < end; ++k) text += EntryText(cases[k], fmt::format("k{}", k));
  return text;
}

float Word(const uint8_t* p) {
  float f;
  std::memcpy(&f, p, 4);
  return f;
}

// Documented bounds against the true value, which the emulator's result is nearly equal to.
struct Bound {
  const char* op;
  double relative, absolute;
};
constexpr Bound kBounds[] = {
    {"ex2", 0x1p-22, 0},       {"lg2", 0x1p-22, 0x1p-22}, {"rcp", 0x1p-22, 0},
    {"rsqrt", 0x1.4p-22, 0},   {"sqrt", 0x1p-22, 0},      {"tanh", 0x1p-10, 0},
    {"sin", 0x1p-20, 0x1p-20}, {"cos", 0x1p-20, 0x1p-20}, {"div", 0x1p-22, 0},
};

// Where the ISA promises nothing: angles beyond a turn, divisors beyond 2^126.
bool Promised(const Case& c, size_t thread) {
  const std::vector<uint8_t> in = Inputs(c);
  const bool angle = c.name.substr(0, 4) == "sin." || c.name.substr(0, 4) == "cos.";
  const bool divides = c.name.substr(0, 11) == "div.approx.";
  if (!angle && !divides) return true;
  const float x = Word(&in[thread * 32 + (divides ? 8 : 0)]);
  return std::abs(x) <= (angle ? 3.15f : 0x1p126f);
}

bool Near(const Case& c, float silicon, float emulator) {
  if (std::isnan(silicon) || std::isnan(emulator))
    return std::isnan(silicon) && std::isnan(emulator);
  if (silicon == emulator) return true;
  for (const Bound& b : kBounds)
    if (c.name.substr(0, std::strlen(b.op) + 1) == std::string(b.op) + ".")
      return std::abs(double{silicon} - emulator) <=
             b.relative * std::abs(double{emulator}) + b.absolute + 0x1p-149;
  return false;
}

constexpr size_t kEvery = 4;  // approximate results: every fourth thread is kept

}  // namespace

void RunAll(const std::vector<Case>& cases, const Opener& open,
            const std::function<void(size_t, Output)>& done, size_t begin, size_t per_module) {
  std::unique_ptr<Device> device = open();
  std::function<void(size_t, size_t)> run = [&](size_t begin, size_t end) {
    DiagSink diags;
    auto module = device->Load(ModuleOf(cases, begin, end), {}, diags);
    if (!module.ok()) {
      if (end - begin == 1) {
        done(begin, {false, Text(diags), {}});
        return;
      }
      const size_t middle = (begin + end) / 2;
      run(begin, middle);
      run(middle, end);
      return;
    }
    for (size_t k = begin; k < end; ++k) {
      Output o = RunOne(*device, **module, fmt::format("k{}", k), cases[k]);
      const bool fault = !o.ran && device->kind() == "cuda";
      done(k, std::move(o));
      if (fault) ::_exit(1);  // the context is of no use any more: see RunApart
    }
  };
  for (size_t k = begin; k < cases.size(); k += per_module)
    run(k, std::min(k + per_module, cases.size()));
}

namespace {

// One result in a pipe: case, whether it ran, length, bytes or error.
struct Head {
  uint64_t index, ran, bytes;
};

bool ReadAll(int fd, void* to, size_t n, int patience) {
  auto* p = static_cast<uint8_t*>(to);
  while (n > 0) {
    pollfd poll_fd = {fd, POLLIN, 0};
    if (::poll(&poll_fd, 1, patience * 1000) <= 0) return false;
    const ssize_t got = ::read(fd, p, n);
    if (got <= 0) return false;
    p += got;
    n -= static_cast<size_t>(got);
  }
  return true;
}

void WriteAll(int fd, const void* from, size_t n) {
  const auto* p = static_cast<const uint8_t*>(from);
  while (n > 0) {
    const ssize_t put = ::write(fd, p, n);
    if (put <= 0) ::_exit(2);
    p += put;
    n -= static_cast<size_t>(put);
  }
}

// Results from `begin` on, until the process ends. The first case without a result.
size_t RunProcess(const std::vector<Case>& cases, const Opener& open,
                  const std::function<void(size_t, Output)>& done, int patience, size_t begin,
                  size_t per_module) {
  int ends[2];
  if (::pipe(ends) != 0) return begin;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    RunAll(
        cases, open,
        [&](size_t k, Output o) {
          if (!o.ran) o.bytes.assign(o.error.begin(), o.error.end());
          const Head head = {k, o.ran ? 1u : 0u, o.bytes.size()};
          WriteAll(ends[1], &head, sizeof head);
          WriteAll(ends[1], o.bytes.data(), o.bytes.size());
        },
        begin, per_module);
    ::_exit(0);
  }
  ::close(ends[1]);
  size_t next = begin;
  for (Head head; ReadAll(ends[0], &head, sizeof head, patience);) {
    Output o;
    o.ran = head.ran != 0;
    o.bytes.resize(head.bytes);
    if (!ReadAll(ends[0], o.bytes.data(), o.bytes.size(), patience)) break;
    if (!o.ran) o.error.assign(o.bytes.begin(), o.bytes.end()), o.bytes.clear();
    done(head.index, std::move(o));
    next = head.index + 1;
    if (per_module == 1 && next >= begin + 32) break;  // one by one only where it is needed
  }
  ::close(ends[0]);
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return next;
}

}  // namespace

void RunApart(const std::vector<Case>& cases, const Opener& open,
              const std::function<void(size_t, Output)>& done, int patience) {
  for (size_t at = 0; at < cases.size();) {
    size_t next = RunProcess(cases, open, done, patience, at, 32);
    if (next > at || next >= cases.size()) {
      at = next;
      continue;
    }
    next = RunProcess(cases, open, done, patience, at, 1);
    if (next == at) done(next++, {false, "the process ended or did nothing\n", {}});
    at = next;
  }
}

std::string Digest(const Case& c, const Output& o) {
  if (!c.approximate) return fmt::format("{:016x}", XXH64(o.bytes.data(), o.bytes.size(), 0));
  std::string out = "~";
  for (size_t at = 0; at + 4 <= o.bytes.size(); at += c.out_bytes * kEvery) {
    uint32_t w = 0;
    std::memcpy(&w, &o.bytes[at], 4);
    out += fmt::format("{}{:x}", at > 0 ? " " : "", w);
  }
  return out;
}

std::string Disagreement(const Case& c, const std::string& recorded, const Output& o) {
  if (!o.ran) return "does not run: " + o.error;
  if (!c.approximate) {
    const std::string mine = Digest(c, o);
    return mine == recorded ? "" : fmt::format("gives {}, silicon {}", mine, recorded);
  }
  if (recorded.empty() || recorded[0] != '~') return "was recorded in another way";
  std::istringstream words(recorded.substr(1));
  for (size_t at = 0; at + 4 <= o.bytes.size(); at += c.out_bytes * kEvery) {
    uint32_t w = 0;
    if (!(words >> std::hex >> w)) return "was recorded with fewer values";
    float silicon;
    std::memcpy(&silicon, &w, 4);
    const float mine = Word(&o.bytes[at]);
    if (!Near(c, silicon, mine) && Promised(c, at / c.out_bytes))
      return fmt::format("thread {}: gives {}, silicon {}", at / c.out_bytes, mine, silicon);
  }
  return "";
}

std::string Difference(const Case& c, const Output& silicon, const Output& emulator) {
  if (silicon.bytes.size() != emulator.bytes.size()) return "sizes differ";
  std::string out;
  const std::vector<uint8_t> in = Inputs(c);
  const size_t threads_end = size_t{c.ctas} * c.threads * c.out_bytes;
  size_t shown = 0, count = 0;
  for (size_t at = 0; at + 4 <= silicon.bytes.size(); at += 4) {
    uint32_t a = 0, b = 0;
    std::memcpy(&a, &silicon.bytes[at], 4);
    std::memcpy(&b, &emulator.bytes[at], 4);
    if (a == b || (c.approximate && Near(c, Word(&silicon.bytes[at]), Word(&emulator.bytes[at]))))
      continue;
    ++count;
    if (++shown > 12) continue;
    out += fmt::format("  {} {}: silicon {:08x} emulator {:08x}",
                       at < threads_end ? fmt::format("thread {}", at / c.out_bytes) : "memory",
                       at < threads_end ? at % c.out_bytes : at - threads_end, a, b);
    if (at < threads_end)
      for (size_t k = 0; k < c.inputs.size(); ++k) {
        uint64_t v = 0;
        std::memcpy(&v, &in[at / c.out_bytes * 32 + k * 8], 8);
        out += fmt::format(" {}={:x}", c.inputs[k], v);
      }
    out += "\n";
  }
  return fmt::format("  {} words differ\n", count) + out;
}

bool ReadGolden(const std::string& path, Golden* golden, std::string* why) {
  std::ifstream in(path);
  if (!in) {
    *why = "cannot read " + path;
    return false;
  }
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.substr(0, 9) == "# device ") golden->device = line.substr(9);
    if (line.substr(0, 7) == "# date ") golden->date = line.substr(7);
    if (line.empty() || line[0] == '#') continue;
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) {
      *why = fmt::format("{}:{}: no tab", path, number);
      return false;
    }
    golden->results[line.substr(0, tab)] = line.substr(tab + 1);
  }
  if (golden->device.empty() || golden->date.empty()) *why = path + " does not say whose it is";
  return !golden->device.empty() && !golden->date.empty();
}

}  // namespace tilec::conformance
