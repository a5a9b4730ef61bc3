// printf, assert, malloc and free of a kernel.
//
// Their operands are addresses that the program chose: every byte of a format, a string or a list
// of arguments is looked up before it is read, and what is printed is bounded.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/services.h"

#include <algorithm>
#include <cstring>

#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

constexpr size_t kMostText = 4096;          // bytes of a format or a string
constexpr uint64_t kMostPrinted = 1 << 20;  // bytes of a launch, as CUDA's buffer
constexpr size_t kMostWidth = 256;          // of a conversion

struct ServiceRow {
  std::string_view name;
  Service service;
  std::vector<uint64_t> params, results;  // bytes
};
const std::vector<ServiceRow>& Rows() {
  static const std::vector<ServiceRow> rows = {
      {"vprintf", Service::kPrintf, {8, 8}, {4}},
      {"__assertfail", Service::kAssert, {8, 8, 4, 8, 8}, {}},
      {"malloc", Service::kMalloc, {8}, {8}},
      {"free", Service::kFree, {8}, {}},
  };
  return rows;
}

uint64_t Argument(Warp& w, const Program::Call& call, int lane, size_t k) {
  uint64_t v = 0;
  memcpy(&v, InFrame(w, call.caller, lane, call.params[k].first), call.params[k].second);
  return v;
}

// One byte at a generic address; false: it is nobody's.
bool ByteAt(Warp& w, int lane, uint64_t address, uint8_t* out) {
  const uint64_t window = address & kWindowMask;
  const uint8_t* p = nullptr;
  if (window == kSharedWindow) {
    uint32_t offset = 0;
    const Cta* cta = ResolveShared(w, address, &offset);
    if (cta == nullptr || offset >= cta->smem_bytes) return false;
    p = cta->smem + offset;
  } else if (window == kLocalWindow) {
    const uint64_t size = w.cta->cluster->launch->program->local_bytes;
    if (address - kLocalWindow >= size) return false;
    p = w.local + static_cast<uint64_t>(lane) * size + (address - kLocalWindow);
  } else {
    if (!CheckGlobal(w, address, 1, false)) return false;
    p = reinterpret_cast<const uint8_t*>(address);
  }
  *out = *p;
  return true;
}

bool Text(Warp& w, const Inst& i, int lane, uint64_t address, std::string* out) {
  for (size_t k = 0; k < kMostText; ++k) {
    uint8_t c = 0;
    if (!ByteAt(w, lane, address + k, &c))
      return FailLane(w, i, lane, kGlobalOutOfBounds, "a text", k + 1, address), false;
    if (c == 0) return true;
    out->push_back(static_cast<char>(c));
  }
  return true;
}

bool Value(Warp& w, const Inst& i, int lane, uint64_t* at, uint64_t bytes, uint64_t* out) {
  *at = (*at + bytes - 1) / bytes * bytes;
  *out = 0;
  for (uint64_t k = 0; k < bytes; ++k) {
    uint8_t c = 0;
    if (!ByteAt(w, lane, *at + k, &c))
      return FailLane(w, i, lane, kGlobalOutOfBounds, "arguments of printf", bytes, *at), false;
    *out |= uint64_t{c} << 8 * k;
  }
  *at += bytes;
  return true;
}

// One conversion: flags, width, precision, length, letter.
struct Conversion {
  std::string flags;
  int64_t width = -1, precision = -1;
  bool star_width = false, star_precision = false, wide = false;
  char letter = 0;
};

size_t Parse(const std::string& f, size_t at, Conversion* c) {
  auto number = [&](int64_t* n, bool* star) {
    if (at < f.size() && f[at] == '*') return *star = true, void(++at);
    while (at < f.size() && f[at] >= '0' && f[at] <= '9')
      *n = std::min<int64_t>(std::max<int64_t>(*n, 0) * 10 + (f[at++] - '0'), kMostWidth);
  };
  while (at < f.size() && std::string_view("-+ #0").find(f[at]) != std::string_view::npos)
    if (c->flags.size() < 5)
      c->flags += f[at++];
    else
      ++at;
  number(&c->width, &c->star_width);
  if (at < f.size() && f[at] == '.')
    c->precision = 0, ++at, number(&c->precision, &c->star_precision);
  size_t longs = 0;
  while (at < f.size() && std::string_view("hlLqjzt").find(f[at]) != std::string_view::npos) {
    longs += f[at] != 'h';
    ++at;
  }
  c->wide = longs > 0;
  if (at < f.size()) c->letter = f[at++];
  return at;
}

std::string Format(const Conversion& c, const char* length, char letter) {
  std::string out = "%" + c.flags;
  if (c.width >= 0) out += std::to_string(c.width);
  if (c.precision >= 0) out += "." + std::to_string(c.precision);
  return out + length + letter;
}

template <typename T>
void Put(const std::string& format, T value, std::string* out) {
  char room[2 * kMostWidth + 400];  // a double has up to 309 digits before the point
  const int n = snprintf(room, sizeof room, format.c_str(), value);
  if (n > 0) out->append(room, std::min(static_cast<size_t>(n), sizeof room - 1));
}

bool Convert(Warp& w, const Inst& i, int lane, Conversion c, uint64_t* list, std::string* out) {
  uint64_t v = 0;
  for (auto [star, to] : {std::pair{c.star_width, &c.width}, {c.star_precision, &c.precision}}) {
    if (!star) continue;
    if (!Value(w, i, lane, list, 4, &v)) return false;
    *to = std::clamp<int64_t>(static_cast<int32_t>(v), 0, kMostWidth);
  }
  switch (c.letter) {
    case '%': out->push_back('%'); return true;
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X': {
      if (!Value(w, i, lane, list, c.wide ? 8 : 4, &v)) return false;
      const bool is_signed = c.letter == 'd' || c.letter == 'i';
      if (is_signed && !c.wide) v = static_cast<uint64_t>(int64_t{static_cast<int32_t>(v)});
      Put(Format(c, "ll", c.letter), static_cast<long long>(v), out);
      return true;
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A': {
      if (!Value(w, i, lane, list, 8, &v)) return false;
      double d = 0;
      memcpy(&d, &v, sizeof d);
      Put(Format(c, "", c.letter), d, out);
      return true;
    }
    case 'c':
      if (!Value(w, i, lane, list, 4, &v)) return false;
      out->push_back(static_cast<char>(v));
      return true;
    case 'p':
      if (!Value(w, i, lane, list, 8, &v)) return false;
      *out += fmt::format("{:#x}", v);
      return true;
    case 's': {
      std::string text;
      if (!Value(w, i, lane, list, 8, &v) || !Text(w, i, lane, v, &text)) return false;
      if (c.precision >= 0) text = text.substr(0, static_cast<size_t>(c.precision));
      const size_t pad = c.width > 0 ? static_cast<size_t>(c.width) : 0;
      const std::string blanks(pad > text.size() ? pad - text.size() : 0, ' ');
      *out += c.flags.find('-') != std::string::npos ? text + blanks : blanks + text;
      return true;
    }
    default: *out += std::string("%") + c.letter; return true;  // as it stands
  }
}

Step Printf(Warp& w, const Inst& i, uint32_t mask, const Program::Call& call) {
  Launch& launch = *w.cta->cluster->launch;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    std::string format, out;
    uint64_t list = Argument(w, call, l, 1);
    int32_t arguments = 0;
    if (!Text(w, i, l, Argument(w, call, l, 0), &format)) return Step::kError;
    for (size_t at = 0; at < format.size() && out.size() < 4 * kMostText;) {
      if (format[at] != '%') {
        out.push_back(format[at++]);
        continue;
      }
      Conversion c;
      at = Parse(format, at + 1, &c);
      arguments += c.letter != '%' && c.letter != 0;
      if (c.letter != 0 && !Convert(w, i, l, c, &list, &out)) return Step::kError;
    }
    memcpy(InFrame(w, call.caller, l, call.results[0].first), &arguments, sizeof arguments);
    const uint64_t before = launch.printed.fetch_add(out.size());
    const auto& print = launch.options->print;
    if (!print || before >= kMostPrinted) continue;
    print(out);
    if (before + out.size() >= kMostPrinted)
      print("\n(printf: the rest of this launch is left out)\n");
  }
  return Step::kNext;
}

Step Assert(Warp& w, const Inst& i, uint32_t mask, const Program::Call& call) {
  const int l = __builtin_ctz(mask);
  std::string text[3];
  for (size_t k = 0; k < 3; ++k)
    if (!Text(w, i, l, Argument(w, call, l, k == 2 ? 3 : k), &text[k])) return Step::kError;
  return FailLane(w, i, l, kAssertFailed, text[0],
                  fmt::format(" at {}:{} in `{}`", text[1], Argument(w, call, l, 2), text[2]));
}

Step Malloc(Warp& w, uint32_t mask, const Program::Call& call) {
  DeviceHeap& heap = *w.cta->cluster->launch->heap;
  std::lock_guard lock(heap.mutex);
  ForLanes(mask, [&](int l) {
    const uint64_t bytes = Argument(w, call, l, 0);
    uint64_t address = 0;
    // Between two blocks there is room that nobody asked for.
    const uint64_t room = (std::min(bytes, DeviceHeap::kBytes) + 15) / 16 * 16 + 16;
    if (bytes > 0 && bytes <= DeviceHeap::kBytes && room <= DeviceHeap::kBytes - heap.used) {
      address = heap.base + heap.used;
      heap.used += room;
      heap.blocks.emplace(address, bytes);
    }
    memcpy(InFrame(w, call.caller, l, call.results[0].first), &address, sizeof address);
  });
  return Step::kNext;
}

Step Free(Warp& w, const Inst& i, uint32_t mask, const Program::Call& call) {
  DeviceHeap& heap = *w.cta->cluster->launch->heap;
  std::lock_guard lock(heap.mutex);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint64_t address = Argument(w, call, l, 0);
    if (address == 0 || heap.blocks.erase(address) == 1) continue;
    const bool was = address >= heap.base && address < heap.base + heap.used;
    return FailLane(
        w, i, l, kBadFree, address,
        was ? "is no start of a block, or was given back before" : "is not of the heap");
  }
  return Step::kNext;
}

}  // namespace

int32_t ServiceFromName(std::string_view name) {
  for (const ServiceRow& row : Rows())
    if (row.name == name) return static_cast<int32_t>(row.service);
  return -1;
}

bool ServiceFits(const Program::Call& call) {
  auto sizes = [](const Program::Places& places, const std::vector<uint64_t>& bytes) {
    bool same = places.size() == bytes.size();
    for (size_t k = 0; same && k < bytes.size(); ++k) same = places[k].second == bytes[k];
    return same;
  };
  for (const ServiceRow& row : Rows())
    if (static_cast<int32_t>(row.service) == call.service)
      return sizes(call.params, row.params) && sizes(call.results, row.results);
  return false;
}

Step RunService(Warp& w, const Inst& i, uint32_t mask, const Program::Call& call) {
  switch (static_cast<Service>(call.service)) {
    case Service::kPrintf: return Printf(w, i, mask, call);
    case Service::kAssert: return Assert(w, i, mask, call);
    case Service::kMalloc: return Malloc(w, mask, call);
    case Service::kFree: return Free(w, i, mask, call);
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
