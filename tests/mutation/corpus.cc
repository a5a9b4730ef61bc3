// Mutants are run as `tilec check` runs a program. Of what was not seen, a trap in front of the
// changed statement tells whether any execution comes to it.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/mutation/corpus.h"

#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "api/machine.h"
#include "runtime/emulator/judge/trace.h"
#include "support/file.h"
#include "tests/mutation/mutate.h"
#include "tools/subject.h"

namespace {

constexpr int kNear = 25;

// The numbers behind every occurrence of `before` in a text.
std::vector<int> NumbersBehind(const std::string& text, const std::string& before) {
  std::vector<int> out;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
    out.push_back(std::atoi(text.c_str() + at + before.size()));
  return out;
}

// The .tile line of a line of PTX: the `.loc` before it. 0: none.
int TileLine(const std::string& ptx, int line) {
  size_t end = 0;
  for (int k = 1; k < line && end != std::string::npos; ++k) end = ptx.find('\n', end) + 1;
  const size_t loc = ptx.rfind("\t.loc\t", end);
  if (loc == std::string::npos) return 0;
  const size_t blank = ptx.find(' ', loc);
  return blank == std::string::npos ? 0 : std::atoi(ptx.c_str() + blank);
}

// Does the report lead to the changed line? `barrier`: the mbarrier it is about; negative: none.
bool RightPlace(const judge::Finding& f, const std::string& ptx, int line, int barrier) {
  const std::string text = judge::ToText(f);
  for (int named : NumbersBehind(text, ".ptx:"))
    if (std::abs(named - line) <= kNear) return true;
  for (int named : NumbersBehind(text, "mbarrier at shared offset "))
    if (named == barrier) return true;
  for (int named : NumbersBehind(text, "initialised at shared offset "))
    if (named == barrier) return true;
  for (const judge::Access& a : f.accesses)  // of a setmaxnreg the pair is another one
    if (f.rule == judge::Rule::kR1 && a.site.text.find("setmaxnreg") == 0) return true;
  const int tile = TileLine(ptx, line);
  for (int named : NumbersBehind(text, ".tile:"))
    if (tile != 0 && named == tile) return true;
  return false;
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string w; in >> w;) words.push_back(w);
  return words;
}

}  // namespace

Corpus::Corpus(const Source& source, const std::string& root, const std::string& cache)
    : source_(source) {
  options_.schedule = *source.schedule != 0 ? source.schedule : "sequential";
  options_.cache_dir = cache;
  const std::string target = source.target;  // a file is one of the checkout
  if (!target.empty())
    options_.target = target.find('/') == target.npos ? target : root + "/" + target;
  session_ = std::make_unique<Session>(options_);
  root_ = root;
}

bool Corpus::Open() {
  std::istringstream words(source_.words);
  for (std::string one; std::getline(words, one, '|');)
    if (!Add(one)) return false;
  return true;
}

Result1 Corpus::Try(const Mutant& mutant) {
  const std::string text = Apply(ptx_, mutant);
  Result1 r;
  if (KnownUnreached(mutant, seen_)) {
    r.reached = false;
    return r;
  }
  r.identical = true;
  barrier_ = kNotAsked;
  for (const Plan& plan : kPlans)
    for (Launched& launch : launches_) {
      if (r.rightly || r.refused || KnownUnreached(mutant, launch.lines)) continue;
      RunAs(*launch.subject, text);
      TryOnce(mutant, plan, launch, &r);
    }
  // A wait that is not tried again is seen where it fails, and a warp that does not meet where a
  // lane is left behind: both are chance.
  const std::string_view kind = Kinds()[mutant.kind].name;
  const bool chance = kind == "BranchDeleted" || kind == "WarpBarrier";
  for (uint64_t seed = kOften; chance && seed < 2 * kOften; ++seed)
    for (Launched& launch : launches_) {
      if (r.caught || r.by_value || r.refused || KnownUnreached(mutant, launch.lines)) continue;
      RunAs(*launch.subject, text);
      TryOnce(mutant, {runtime::Policy::kProducerFirst, runtime::Landing::kLate, seed, true},
              launch, &r);
    }
  if (!r.caught && !r.by_value && !r.refused) r.reached = Reached(mutant);
  return r;
}

// Of several launches the others stay as they are.
void Corpus::RunAs(Subject& subject, const std::string& text) const {
  subject.Rewrite([this, text](const std::string& of) { return of == ptx_ ? text : of; });
}

// Judged instructions are seen to be executed; of others a trap tells.
bool Corpus::KnownUnreached(const Mutant& mutant, const std::set<int>& lines) const {
  const auto away = [&](int line) { return lines.count(line) == 0; };
  const std::string& was = mutant.before;
  const size_t blank = was[0] == '@' ? was.find(' ') + 1 : 0;
  const std::string opcode = was.substr(blank, was.find_first_of(" \t", blank) - blank);
  return judged_.count(opcode) != 0 && away(mutant.line);
}

// One launch of the program: its right outputs, and nothing found.
bool Corpus::Add(const std::string& words) {
  DiagSink& diags = session_->diags();
  const std::string file = source_.file;
  const std::string folder = root_.empty() ? "" : root_ + "/";
  Launched launch;
  if (file.substr(file.size() - 4) == ".ptx") {
    std::string text, why;
    if (!ReadFile(folder + file, &text, &why)) return false;
    auto read = ReadLaunchFile(folder + Words(words)[0], diags);
    if (!read.ok()) return false;
    auto subject = PtxSubject(*session_, file, text, *read);
    if (!subject.ok()) return false;
    launch.subject = std::move(*subject);
  } else {
    auto given = ParseAssignments(Words(words), diags);
    auto kernel = session_->LoadKernel(file.rfind("tests/", 0) == 0 ? folder + file : file);
    if (!given.ok() || !kernel.ok()) return false;
    auto subject = KernelSubject(*session_, *kernel, *given);
    if (!subject.ok()) return false;
    launch.subject = std::move(*subject);
  }
  std::string ptx;
  size_t number = 0;
  launch.subject->Rewrite([&](const std::string& text) {
    if (source_.launch == 0 || ++number == source_.launch) ptx = text;
    return text;
  });
  auto report = std::make_shared<judge::Report>();
  const auto trace = std::make_shared<judge::Trace>();
  report->SetTrace(trace);
  for (const Plan& plan : kPlans) {
    auto outcome = Run(*launch.subject, plan, report);
    if (!outcome || report->Count(judge::Severity::kError) != 0)
      return fmt::print("{}: the original is not silent\n{}", source_.name,
                        judge::ToText(report->findings())),
             false;
    if (launch.reference.outputs.empty()) launch.reference = std::move(*outcome);
    if (!Same(*outcome, launch.reference))
      return fmt::print("{}: orders of execution give different outputs\n", source_.name), false;
  }
  if (!ptx_.empty() && ptx != ptx_)
    return fmt::print("{}: another program is launched with {}\n", source_.name, words), false;
  ptx_ = std::move(ptx);
  for (const auto& [pc, site] : trace->sites) {
    launch.lines.insert(site.line);
    seen_.insert(site.line);
    judged_.insert(site.text.substr(0, site.text.find_first_of(" \t")));
  }
  launches_.push_back(std::move(launch));
  return true;
}

void Corpus::TryOnce(const Mutant& mutant, const Plan& plan, const Launched& launch,
                     Result1* result) {
  Result1& r = *result;
  const Kind& kind = Kinds()[mutant.kind];
  auto report = std::make_shared<judge::Report>();
  auto outcome = Run(*launch.subject, plan, report);
  if (outcome) {
    const bool same = Same(*outcome, launch.reference);
    r.identical = r.identical && same;
    r.by_value = r.by_value || !same;
    // `tilec check` compares with the reference too; for some mistakes that is the check.
    if (!same && Accepts(kind, "output")) r.caught = r.rightly = true;
  } else if (report->findings().empty()) {
    r.refused = true;  // does not load
    return;
  } else {
    r.identical = false;
  }
  for (const judge::Finding& f : report->findings()) {
    if (f.severity == judge::Severity::kHint) continue;
    // Of a kernel whose right form may be told that it is not portable.
    if (source_.errors_only && f.severity != judge::Severity::kError) continue;
    const std::string id = judge::Def(f.rule).id;
    r.caught = true;
    if (r.by.find(id) == std::string::npos) r.by += (r.by.empty() ? "" : " ") + id;
    if (!Accepts(kind, id)) continue;
    r.rightly = r.has_place = true;
    if (!r.placed && barrier_ == kNotAsked) barrier_ = BarrierOf(mutant);
    r.placed = r.placed || RightPlace(f, ptx_, mutant.line, barrier_);
  }
}

// Does any of the executions come to the statement? A trap in front of it tells.
bool Corpus::Reached(const Mutant& mutant) {
  const std::string text = Apply(ptx_, TrapBefore(mutant));
  for (Launched& launch : launches_) {
    RunAs(*launch.subject, text);
    for (const Plan& plan : kPlans)
      if (!Run(*launch.subject, plan, std::make_shared<judge::Report>())) return true;
  }
  return false;
}

// The mbarrier that a statement is about: initialised once more in front of it, the emulator says
// where it is. -1: it is about none.
int Corpus::BarrierOf(const Mutant& mutant) {
  const std::optional<Mutant> twice = InitialisedTwice(mutant);
  if (!twice) return -1;
  const std::string text = Apply(ptx_, *twice);
  Subject& subject = *launches_[0].subject;
  const auto outer = subject.rewrite();
  RunAs(subject, text);
  auto report = std::make_shared<judge::Report>();
  Run(subject, kPlans[0], report);
  subject.Rewrite(outer);
  for (const judge::Finding& f : report->findings())
    if (f.rule == judge::Rule::kS9)
      for (int offset : NumbersBehind(f.message, "mbarrier at shared offset ")) return offset;
  return -1;
}

std::optional<Subject::Outcome> Corpus::Run(Subject& subject, const Plan& plan,
                                            std::shared_ptr<judge::Report> report) {
  runtime::EmulatorOptions o;
  o.policy = plan.policy;
  o.landing = plan.landing;
  o.seed = plan.seed;
  o.spurious_try_wait = plan.spurious;
  o.check = runtime::EmulatorOptions::Check::kOn;
  o.report = std::move(report);
  o.instruction_limit = 3'000'000;
  if (*source_.target != 0)
    if (const auto machine = session_->Machine(); machine.ok())
      o.machine = api::LimitsOf(**machine);
  const auto device = runtime::OpenEmulator(o);
  auto outcome = subject.Run(*device);
  session_->diags().Clear();
  if (!outcome.ok()) return std::nullopt;
  return std::move(*outcome);
}

bool Corpus::Same(const Subject::Outcome& outcome, const Subject::Outcome& reference) {
  for (const auto& [name, value] : outcome.outputs)
    if (value.ToBytes() != reference.outputs.at(name).ToBytes()) return false;
  return true;
}
