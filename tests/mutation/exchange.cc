// What orders the exchange of slices (cluster_reduce), taken away one piece at a time: the judge
// has to say so of each, and nothing of the program as it is.
//
//     exchange_mutants
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/judge/finding.h"
#include "tools/assignments.h"
#include "tools/session.h"
#include "tools/subject.h"

namespace {

using namespace tilec;         // NOLINT: a test program
using namespace tilec::tools;  // NOLINT
namespace judge = runtime::judge;

// `text` with the first or the last `was` become `is`; empty if there is none.
std::string Changed(std::string text, const std::string& was, const std::string& is, bool last) {
  const size_t at = last ? text.rfind(was) : text.find(was);
  if (at == std::string::npos) return "";
  return text.replace(at, was.size(), is);
}

struct Piece {
  const char* what;
  const char* check;  // that says so
  std::function<std::string(const std::string&)> without;
};

const std::string kWait = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64";
const std::string kArrive = "mbarrier.arrive.release.cluster.shared::cluster.b64";
const std::string kReady = "barrier.cluster.arrive.release;";
const std::string kOthersReady = "barrier.cluster.wait.acquire;";
const std::string kMeet = kReady + " " + kOthersReady;

// `text` whose CTAs neither say that they are ready nor wait for the others before they exchange:
// nothing is left but where they meet at the end. Empty if they do not meet twice.
std::string WithoutFirstMeeting(std::string text) {
  const size_t end = text.rfind(kMeet);
  if (end == std::string::npos || text.find(kReady) == end) return "";
  std::string before = text.substr(0, end);
  for (const std::string& word : {kReady, kOthersReady})
    for (size_t at = before.find(word); at != std::string::npos; at = before.find(word))
      before.erase(at, word.size());
  return before + text.substr(end);
}

const std::vector<Piece> kPieces = {
    {"nobody waits until the others have written", "M1",
     [](const std::string& text) {
       const size_t at = text.find(kWait);
       if (at == std::string::npos) return std::string();
       const size_t p = text.find('%', at), comma = text.find(',', p), end = text.find(';', at);
       const std::string done = "setp.eq.u32 " + text.substr(p, comma - p) + ", 0, 0;";
       return text.substr(0, at) + done + text.substr(end + 1);
     }},
    {"what others released is not acquired", "M3",
     [](const std::string& text) {
       return Changed(text, kWait, "mbarrier.try_wait.parity.shared::cta.b64", false);
     }},
    {"nobody says that it has written", "S1",
     [](const std::string& text) {
       const size_t at = text.find(kArrive);
       if (at == std::string::npos) return std::string();
       const size_t line = text.rfind('\n', at) + 1, end = text.find('\n', at);
       return text.substr(0, line) + text.substr(end);
     }},
    {"what was written is not released", "M1",
     [](const std::string& text) {
       return Changed(text, kArrive, "mbarrier.arrive.relaxed.cluster.shared::cluster.b64", false);
     }},
    {"a CTA ends while others read", "M8",
     [](const std::string& text) { return Changed(text, kMeet, "", true); }},
    {"a CTA arrives before others have their barriers", "P4", WithoutFirstMeeting},
};

struct Plan {
  runtime::Policy policy;
  runtime::Landing landing;
  uint64_t seed;
};
constexpr Plan kPlans[] = {{runtime::Policy::kRunToBlock, runtime::Landing::kEarly, 0},
                           {runtime::Policy::kConsumerFirst, runtime::Landing::kPoison, 0},
                           {runtime::Policy::kProducerFirst, runtime::Landing::kLate, 0},
                           {runtime::Policy::kRandom, runtime::Landing::kRandom, 1},
                           {runtime::Policy::kRandom, runtime::Landing::kRandom, 2}};

// The checks that speak in any of the orders.
std::set<std::string> Said(Subject& subject, Session& session) {
  std::set<std::string> checks;
  for (const Plan& plan : kPlans) {
    runtime::EmulatorOptions o;
    o.policy = plan.policy;
    o.landing = plan.landing;
    o.seed = plan.seed;
    o.check = runtime::EmulatorOptions::Check::kOn;
    o.report = std::make_shared<judge::Report>();
    o.instruction_limit = 3'000'000;
    const auto device = runtime::OpenEmulator(o);
    const bool ran = subject.Run(*device).ok();
    session.diags().Clear();
    for (const judge::Finding& f : o.report->findings())
      if (f.severity != judge::Severity::kHint) checks.insert(judge::Def(f.rule).id);
    if (!ran && o.report->findings().empty()) return {"(does not load)"};
  }
  return checks;
}

int Main() {
  Options options;
  options.schedule = "solve:split=4";
  Session session(options);
  auto given = ParseAssignments({"M=64", "N=64", "K=520", "BM=64", "BN=64"}, session.diags());
  auto kernel = session.LoadKernel("std/matmul.tile:gemm");
  if (!given.ok() || !kernel.ok()) return fmt::print("the product cannot be read\n"), 1;
  auto subject = KernelSubject(session, *kernel, *given);
  if (!subject.ok()) return fmt::print("the product cannot be run\n"), 1;
  std::string ptx;
  (*subject)->Rewrite([&](const std::string& text) { return ptx = text; });
  if (const auto said = Said(**subject, session); !said.empty())
    return fmt::print("the program as it is: {}\n", fmt::join(said, " ")), 1;
  int missed = 0;
  for (const Piece& piece : kPieces) {
    const std::string text = piece.without(ptx);
    (*subject)->Rewrite([&](const std::string&) { return text; });
    const auto said = text.empty() ? std::set<std::string>() : Said(**subject, session);
    const bool caught = said.count(piece.check) > 0;
    missed += !caught;
    fmt::print("{} {}: {}\n", caught ? "caught" : "MISSED", piece.what, fmt::join(said, " "));
  }
  return missed > 0;
}

}  // namespace

int main() { return Main(); }
