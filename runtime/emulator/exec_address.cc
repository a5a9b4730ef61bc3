// Instructions that make or look at addresses and touch no memory: conversions between windows,
// what space an address is of, addresses in other CTAs, tensor maps fetched ahead.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

Step RunCvta(Warp& w, const Inst& i, uint32_t mask) {
  Space space = static_cast<Space>(i.u[0]);
  bool to = i.u[1] != 0;
  uint64_t window = space == Space::kShared  ? kSharedWindow
                    : space == Space::kLocal ? kLocalWindow
                    : space == Space::kParam
                        ? reinterpret_cast<uint64_t>(w.cta->cluster->launch->params)
                        : 0;
  uint64_t *d = Row<uint64_t>(w, i.o[0]), *a = Row<uint64_t>(w, i.o[1]);
  ForLanes(mask, [&](int l) { d[l] = to ? a[l] - window : a[l] + window; });
  return Step::kNext;
}

Step RunIsSpace(Warp& w, const Inst& i, uint32_t mask) {
  Space space = static_cast<Space>(i.u[0]);
  const uint64_t* a = Row<uint64_t>(w, i.o[1]);
  const Launch& launch = *w.cta->cluster->launch;
  uint32_t& d = Predicate(w, i.o[0]);
  uint64_t params = reinterpret_cast<uint64_t>(launch.params);
  ForLanes(mask, [&](int l) {
    uint64_t window = a[l] & kWindowMask;
    bool in_param = a[l] - params < launch.program->param_bytes;
    bool r = false;
    switch (space) {
      case Space::kShared: r = window == kSharedWindow; break;
      case Space::kLocal: r = window == kLocalWindow; break;
      case Space::kParam: r = in_param; break;
      case Space::kGlobal:
      case Space::kConst: r = window != kSharedWindow && window != kLocalWindow && !in_param; break;
    }
    d = r ? d | 1u << l : d & ~(1u << l);
  });
  return Step::kNext;
}

namespace {

constexpr uint32_t kMapBytes = 128, kMapAlign = 64;

// What a generic address is an address of.
enum class GenericPlace : uint8_t { kNowhere, kParams, kConstants, kGlobal, kShared, kLocal };

GenericPlace PlaceOf(Warp& w, uint64_t address) {
  const Launch& launch = *w.cta->cluster->launch;
  const uint64_t window = address & kWindowMask;
  if (window == kSharedWindow) return GenericPlace::kShared;
  if (window == kLocalWindow) return GenericPlace::kLocal;
  if (address - reinterpret_cast<uint64_t>(launch.params) < launch.program->param_bytes)
    return GenericPlace::kParams;
  if (!CheckGlobal(w, address, 1, false)) return GenericPlace::kNowhere;
  return w.cache_read_only ? GenericPlace::kConstants : GenericPlace::kGlobal;
}

const char* Describe(GenericPlace place) {
  switch (place) {
    case GenericPlace::kNowhere: return "no memory";
    case GenericPlace::kParams: return "the parameters";
    case GenericPlace::kConstants: return "constants";
    case GenericPlace::kGlobal: return "global memory";
    case GenericPlace::kShared: return "shared memory";
    case GenericPlace::kLocal: return "local memory";
  }
  return "";
}

}  // namespace

// A tensor map that is fetched ahead. Its bytes are not looked at: only a copy needs them.
Step RunPrefetchMap(Warp& w, const Inst& i, uint32_t mask) {
  const Space space = static_cast<Space>(i.u[0]);
  const bool generic = i.u[1] != 0;
  const char* const what = "a prefetch of a tensor map";
  const auto help = [&w](std::string text) {
    w.cta->cluster->fault.helps.push_back(std::move(text));
    return Step::kError;
  };
  const uint64_t params = w.cta->cluster->launch->program->param_bytes;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint64_t a =
        i.u[2] ? Row<uint64_t>(w, i.o[0])[l] + i.imm
               : static_cast<uint32_t>(Row<uint32_t>(w, i.o[0])[l] + static_cast<uint32_t>(i.imm));
    const GenericPlace place = PlaceOf(w, a);
    if (space == Space::kParam && !generic) {
      if (place != GenericPlace::kNowhere) {
        FailLane(w, i, l, kMapSpace, TextOf(w, i), a,
                 std::string("a generic address in ") + Describe(place),
                 "an address of the parameter space");
        return help("write `prefetch.tensormap`, which takes generic addresses");
      }
      if (a > params || kMapBytes > params - a)
        return FailLane(w, i, l, kParamOutOfBounds, what, kMapBytes, a, params);
      if (a % kMapAlign != 0) return FailLane(w, i, l, kMisaligned, what, kMapBytes, a, kMapAlign);
      continue;
    }
    const bool fits = generic
                          ? place == GenericPlace::kParams || place == GenericPlace::kConstants ||
                                place == GenericPlace::kGlobal
                          : place == GenericPlace::kConstants;
    if (place != GenericPlace::kNowhere && !fits) {
      FailLane(w, i, l, kMapSpace, TextOf(w, i), a, std::string("an address in ") + Describe(place),
               generic ? "one in parameters, constants or global memory" : "one in constants");
      return help(generic ? "pass the tensor map as a parameter of the kernel"
                          : "write `prefetch.tensormap`, which takes generic addresses");
    }
    if (a % kMapAlign != 0) return FailLane(w, i, l, kMisaligned, what, kMapBytes, a, kMapAlign);
    if (CheckGlobal(w, a, kMapBytes, false)) continue;
    FailLane(w, i, l, kGlobalOutOfBounds, what, kMapBytes, a);
    if (place == GenericPlace::kNowhere && generic && a < params)
      return help("make a generic address of a parameter's by `cvta.param`");
    return Step::kError;
  }
  return Step::kNext;
}

// The address of the same offset in another CTA of the cluster.
Step RunMapa(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* rank = Row<uint32_t>(w, i.o[2]);
  size_t ctas = w.cta->cluster->ctas.size();
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    if (rank[l] >= ctas)
      return FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
                      fmt::format("rank {} in a cluster of {} CTAs", rank[l], ctas));
    uint64_t a = i.u[1] ? Row<uint64_t>(w, i.o[1])[l] : Row<uint32_t>(w, i.o[1])[l];
    uint64_t window = i.u[0] ? 0 : kSharedWindow;
    uint64_t offset = (a - (a >= kSharedWindow ? kSharedWindow : 0)) & ((1u << kRankShift) - 1);
    uint64_t r = window + (uint64_t{rank[l]} << kRankShift | offset);
    if (i.u[1])
      Row<uint64_t>(w, i.o[0])[l] = r;
    else
      Row<uint32_t>(w, i.o[0])[l] = static_cast<uint32_t>(r);
  }
  return Step::kNext;
}

Step RunGetCtaRank(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  ForLanes(mask, [&](int l) {
    uint64_t a = i.u[1] ? Row<uint64_t>(w, i.o[1])[l] : Row<uint32_t>(w, i.o[1])[l];
    uint32_t offset = 0;
    Cta* cta = ResolveShared(w, a, &offset);
    d[l] = cta == nullptr ? ~0u : cta->rank;
  });
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
