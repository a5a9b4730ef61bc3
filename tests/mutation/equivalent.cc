// Mutants whose text shows that they are the same program. A large kernel has hundreds of them, too
// many to argue one by one; each argument here looks at the statements that follow, so it is made
// anew for every mutant.
//
// What follows is read in the order of the text, or along the edges between statements. In the
// order of the text a branch ahead is passed if its target comes
// before the end of the argument: all that any path does between is looked at. A branch back is
// passed if it is to a label behind the start: a loop of waits.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/mutation/equivalent_text.h"
#include "tests/mutation/mutate.h"

namespace tilec::mutation {

namespace {

const char* WithoutWaitForLoads(const Text& text, int wait) {
  std::set<std::string> unread = text.LoadedBefore(wait);
  if (unread.empty()) return nullptr;
  Paths paths;
  for (int k = wait + 1; k <= static_cast<int>(text.size()); ++k) {
    const Line& l = text.at(k);
    if (!paths.Pass(l)) return nullptr;
    if (unread.empty()) return "every register of the loads is read before anybody is told";
    if (Tells(l)) return nullptr;
    if (!paths.together()) continue;
    if (l.Is("tcgen05.wait::ld")) return "the next wait for loads covers it";
    if (!l.guard.empty() || l.opcode.empty()) continue;
    for (const std::string& r : Registers(Sources(l))) unread.erase(r);
    // A store may overwrite what a load is still to read.
    if (l.Is("tcgen05.st") && !unread.empty()) return nullptr;
  }
  return nullptr;
}

const char* WithoutWaitForStores(const Text& text, int wait) {
  const std::set<std::string> stored = text.StoredBefore(wait);
  if (stored.empty()) return nullptr;
  std::set<int> met;
  std::vector<int> todo = text.After(wait);
  while (!todo.empty()) {
    const int k = todo.back();
    todo.pop_back();
    const Line& l = text.at(k);
    if (l.Is("tcgen05.wait::st") || !met.insert(k).second) continue;
    if (l.Is("brx") || Tells(l) || text.After(k).empty()) return nullptr;
    if ((l.Is("tcgen05.ld") || l.Is("tcgen05.st")) && stored.count(AddressIn(l.operands)) != 0)
      return nullptr;
    for (const int next : text.After(k)) todo.push_back(next);
  }
  return "on every path the next wait for stores covers it, and nobody is told between";
}

const char* WithoutWarpBarrier(const Text& text, int barrier) {
  for (int k = barrier + 1; k <= static_cast<int>(text.size()); ++k) {
    const Line& l = text.at(k);
    if (l.opcode.find(".aligned") != std::string::npos || l.Is("bar.sync") || l.Is("bar.warp.sync"))
      return "the lanes meet at the collective that follows, and none has done a thing between";
    const bool harmless = l.Is("ld.global") || l.Is("ld.param") || l.Is("tcgen05.fence");
    if (!l.label.empty() || l.Is("bra") || l.Is("ret") || Tells(l)) return nullptr;
    if (!harmless && (l.Is("ld.") || l.Is("st.") || l.Is("mbarrier") || l.Is("cp.") ||
                      l.Is("atom") || l.Is("red.") || l.Is("elect") || l.Is("fence")))
      return nullptr;
  }
  return nullptr;
}

bool TouchesTensorMemory(const Line& l) {
  return l.Is("tcgen05.ld") || l.Is("tcgen05.st") || l.Is("tcgen05.mma") || l.Is("tcgen05.cp") ||
         l.Is("tcgen05.shift");
}

// Is it a wait for copies, who touch no tensor memory? By the barrier's place: nobody commits
// there.
bool AwaitsCopies(const Text& text, int wait) {
  const int64_t place = text.PlaceOf(wait);
  if (place < 0 || text.copied().count(place) == 0) return false;
  for (int k = 1; k <= text.last(); ++k)
    if (text.at(k).Is("tcgen05.commit") && text.PlaceOf(k) == place) return false;
  return true;
}

// In front of it nobody has touched tensor memory: no statement that may be executed before does,
// and nobody else is waited for but copies.
const char* NothingTouchedBefore(const Text& text, int fence) {
  for (const int k : text.BackTo(fence, [](int) { return false; })) {
    const Line& l = text.at(k);
    if (TouchesTensorMemory(l) || l.Is("tcgen05.commit")) return nullptr;
    if (l.Is("mbarrier.try_wait") && !AwaitsCopies(text, k)) return nullptr;
  }
  return "nobody has touched tensor memory in front of it, and the allocation is synchronous";
}

// The same warps have met, between such fences, and since then they have touched no tensor memory
// and waited for nobody but copies: there is nothing more to hand on.
const char* NothingTouchedSince(const Text& text, int fence) {
  // The barrier that it belongs to: the one behind a fence::before, in front of a fence::after.
  int barrier = 0;
  const int step = text.at(fence).Is("tcgen05.fence::before") ? 1 : -1;
  for (int k = fence; barrier == 0 && std::abs(k - fence) < 4 && k > 0 && k <= text.last();
       k += step)
    if (text.at(k).Is("bar.sync")) barrier = k;
  if (barrier == 0) return nullptr;
  const auto fenced = [&](int k, int way, std::string_view what) {
    for (int n = 1; n < 4; ++n)
      if (k + way * n > 0 && k + way * n <= text.last() && text.at(k + way * n).Is(what))
        return true;
    return false;
  };
  bool any = false;
  const auto meets = [&](int k) {
    const bool same = k != barrier && text.at(k).Is("bar.sync") &&
                      text.at(k).operands == text.at(barrier).operands &&
                      fenced(k, -1, "tcgen05.fence::before") &&
                      fenced(k, 1, "tcgen05.fence::after");
    any |= same;
    return same;
  };
  for (const int k : text.BackTo(barrier, meets)) {
    const Line& l = text.at(k);
    if (k == 1 || l.Is("tcgen05.ld") || l.Is("tcgen05.st") || k == barrier) return nullptr;
    if (l.Is("mbarrier.try_wait") && !AwaitsCopies(text, k)) return nullptr;
  }
  return any ? "the warps have met between fences, and have touched no tensor memory since"
             : nullptr;
}

// Behind it tensor memory is given back and nothing else done with it; that is synchronous. Its own
// products, loads and stores are over, since each has been waited for.
const char* OnlyGivenBackBehind(const Text& text, int fence) {
  Paths paths;
  bool met = false, back = false;
  for (int k = fence; k <= static_cast<int>(text.size()); ++k) {
    const Line& l = text.at(k);
    if (!paths.Pass(l) || TouchesTensorMemory(l) || l.Is("mbarrier.arrive")) return nullptr;
    met |= l.Is("bar.sync") || l.Is("barrier.cluster.wait");
    back |= l.Is("tcgen05.dealloc");
  }
  // The fence in front of the barrier or behind it.
  for (int k = fence; k > fence - 6 && k > 0 && !met; --k)
    met = text.at(k).Is("bar.sync") || text.at(k).Is("barrier.cluster.wait");
  return met && back && paths.together()
             ? "the barrier orders all before it, and only the deallocation follows, which is "
               "synchronous"
             : nullptr;
}

// Every path to an access of tensor memory has another such fence in front of it.
const char* AnotherFenceFollows(const Text& text, int fence) {
  Paths paths;
  for (int k = fence + 1; k <= static_cast<int>(text.size()); ++k) {
    const Line& l = text.at(k);
    if (!paths.Pass(l) || TouchesTensorMemory(l)) return nullptr;
    if (l.Is("tcgen05.fence::after") && paths.together())
      return "another fence stands between it and every access";
  }
  return nullptr;
}

const char* WithoutFence(const Text& text, int fence) {
  if (const char* why = NothingTouchedBefore(text, fence); why != nullptr) return why;
  if (const char* why = NothingTouchedSince(text, fence); why != nullptr) return why;
  if (const char* why = OnlyGivenBackBehind(text, fence); why != nullptr) return why;
  return text.at(fence).Is("tcgen05.fence::after") ? AnotherFenceFollows(text, fence) : nullptr;
}

// What the branch goes around does nothing but to those who are meant to do it, and nothing to them
// either way: then all may.
const char* WithoutBranch(const Text& text, int branch) {
  const std::string target = text.at(branch).operands;
  bool prefetches = false, waits = false;
  for (int k = branch + 1; k <= static_cast<int>(text.size()); ++k) {
    const Line& l = text.at(k);
    if (l.label == target)
      return prefetches && !waits   ? "the branch goes around prefetches alone"
             : waits && !prefetches ? "threads that have stored nothing wait for nothing"
                                    : nullptr;
    if (l.opcode.empty() || l.opcode == "bra.uni") continue;
    prefetches |= l.Is("prefetch");
    waits |= l.Is("cp.async.bulk.wait_group");
    if (!l.Is("prefetch") && !l.Is("cp.async.bulk.wait_group")) return nullptr;
  }
  return nullptr;
}

// Does it do nothing but compute?
bool OnlyComputes(const Line& l) {
  constexpr std::string_view kOthers[] = {"ld.",  "st.",    "mbarrier", "cp.",  "tcgen05", "atom",
                                          "red.", "fence",  "bar",      "bra",  "brx",     "ret",
                                          "exit", "elect.", "call",     "vote", "shfl"};
  return std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](std::string_view other) { return l.Is(other); });
}

// The branch goes around a wait of one thread for a copy. All may wait: they meet behind it, in
// front of the products that free what was copied, so none of them is late by two phases.
const char* AllWait(const Text& text, int branch) {
  const std::string target = text.at(branch).operands;
  int k = branch + 1;
  bool waits = false;
  for (; k <= text.last() && text.at(k).label != target; ++k) {
    const Line& l = text.at(k);
    if (l.Is("mbarrier.try_wait") && AwaitsCopies(text, k))
      waits = true;
    else if (!l.Is("bra") && !OnlyComputes(l))
      return nullptr;
  }
  if (!waits || k > text.last()) return nullptr;
  // On all paths from there a barrier of all threads is next.
  std::set<int> met, barriers;
  std::vector<int> todo = {k};
  while (!todo.empty()) {
    const int at = todo.back();
    todo.pop_back();
    if (!met.insert(at).second) continue;
    const Line& l = text.at(at);
    const bool passes =
        OnlyComputes(l) || l.Is("tcgen05.fence") || l.Is("bra") || l.Is("mbarrier.try_wait");
    if (l.Is("bar.sync") && l.guard.empty())
      barriers.insert(at);
    else if (!passes)
      return nullptr;
    else
      for (const int next : text.After(at)) todo.push_back(next);
  }
  const auto multiplies = [&](int barrier) {
    for (int at = barrier + 1; at <= text.last() && !text.at(at).Is("bar.sync"); ++at)
      if (text.at(at).Is("tcgen05.mma")) return true;
    return false;
  };
  return !barriers.empty() && std::all_of(barriers.begin(), barriers.end(), multiplies)
             ? "all threads wait where one does, for a copy, and meet in front of the products "
               "that free its slot"
             : nullptr;
}

// Is the register 0 here, whatever way led here? `depth`: of copies from other registers.
bool IsZero(const Text& text, int number, const std::string& reg, int depth) {
  bool zero = depth > 0, any = false;
  text.BackTo(number, [&](int k) {
    const Line& l = text.at(k);
    const std::vector<std::string> named = Registers(l.operands);
    if (named.empty() || named[0] != reg || l.Is("st.") || l.Is("bra")) return false;
    any = true;
    const size_t comma = l.operands.find(", ");
    const std::string from = comma == l.operands.npos ? "" : l.operands.substr(comma + 2);
    zero = zero && l.guard.empty() && l.Is("mov.") &&
           (from == "0" || (from[0] == '%' && IsZero(text, k, from, depth - 1)));
    return true;
  });
  return any && zero;
}

// The phase is 0 as it is: all that may define its register says so.
const char* PhaseIsZero(const Text& text, int wait) {
  const std::vector<std::string> read = Registers(text.at(wait).operands);
  return !read.empty() && IsZero(text, wait, read.back(), 3)
             ? "the phase that it asks for is 0 already"
             : nullptr;
}

// All threads that the barrier lets go have the proxy fence next.
const char* FenceBehindBarrier(const Text& text, const Mutant& mutant) {
  const Line &barrier = text.at(mutant.line), &fence = text.at(mutant.left_line);
  const bool all = barrier.guard.empty() && fence.guard.empty();
  return all && barrier.Is("bar.sync") && fence.Is("fence.proxy.async")
             ? "every thread that the barrier lets go has the proxy fence next"
             : nullptr;
}

}  // namespace

const char* ShownEquivalent(const std::string& ptx, const Mutant& mutant) {
  const std::string kind = Kinds()[mutant.kind].name;
  const Text text(ptx);
  if (kind == "TensorWaitLd") return WithoutWaitForLoads(text, mutant.line);
  if (kind == "TensorWaitSt") return WithoutWaitForStores(text, mutant.line);
  if (kind == "TensorBefore" || kind == "TensorAfter") return WithoutFence(text, mutant.line);
  if (kind == "PhaseKept") return PhaseIsZero(text, mutant.line);
  if (kind == "BranchDeleted") {
    const char* why = WithoutBranch(text, mutant.line);
    return why != nullptr ? why : AllWait(text, mutant.line);
  }
  if (kind == "WarpBarrier") return WithoutWarpBarrier(text, mutant.line);
  // Behind its wait, a load or store is one that nobody waits for there.
  if (kind == "MoveLate")
    return text.at(mutant.line).Is("tcgen05.wait::ld") ? WithoutWaitForLoads(text, mutant.line)
                                                       : WithoutWaitForStores(text, mutant.line);
  if (kind == "OrderLate" && text.at(mutant.left_line).Is("tcgen05.wait::ld"))
    return WithoutWaitForLoads(text, mutant.left_line);
  if (kind == "OrderLate" && text.at(mutant.left_line).Is("tcgen05.fence"))
    return WithoutFence(text, mutant.left_line);
  if (kind == "OrderLate") return FenceBehindBarrier(text, mutant);
  return nullptr;
}

}  // namespace tilec::mutation
