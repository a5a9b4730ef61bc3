// SPDX-License-Identifier: Apache-2.0
#include "tools/check_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/emulator/judge/cause.h"
#include "shim/settings.h"
#include "support/file.h"
#include "tools/annotate.h"
#include "tools/diagnostics.h"
#include "tools/suppressions.h"

namespace tilec::tools {
namespace {

namespace fs = std::filesystem;
namespace judge = runtime::judge;
using Json = nlohmann::ordered_json;

// A word as a shell takes it.
std::string Quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-+=.,/:@%") == std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Beside this program: in the build's tree, or as installed.
std::string FindLibrary() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char* place :
       {"../shim/libtilec_cuda.so", "../" TILEC_LIBDIR "/tilec/libtilec_cuda.so",
        "../lib/tilec/libtilec_cuda.so", "libtilec_cuda.so"})
    if (fs::exists(here / place, ignored)) return fs::canonical(here / place, ignored).string();
  return "";
}

// The folder of a session, gone with it.
class Folder {
 public:
  Folder() {
    std::error_code ignored;
    std::string name = (fs::temp_directory_path(ignored) / "tilec-check-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void Prepend(const char* name, const std::string& value, char between) {
  const char* old = std::getenv(name);
  const std::string all = old == nullptr || *old == '\0' ? value : value + between + old;
  setenv(name, all.c_str(), 1);
}

class Program {
 public:
  explicit Program(Session& session) : session_(session), o_(session.options()) {}

  Result<int> Do() {
    DiagSink& diags = session_.diags();
    TRY_VOID(session_.CheckOptions());
    if (!o_.suppress.empty()) {
      std::string text, why;
      if (!ReadFile(o_.suppress, &text, &why))
        return diags.Report(kFileUnreadable, Span{}, o_.suppress, why).Place("command line");
      TRY(suppressions_, ParseSuppressions(o_.suppress, text, diags));
    }
    const std::string library = FindLibrary();
    if (library.empty())
      return diags.Report(kNoShim, Span{}, "libtilec_cuda.so")
          .Help("it is installed in lib/tilec, beside bin/tilec");
    if (folder_.path().empty())
      return diags.Report(kFileUnwritable, Span{}, "a folder for this session", strerror(errno));
    TRY_VOID(Prepare(library));
    TRY(const int status, Run());
    Collect();
    return Report(status);
  }

 private:
  Result<> Prepare(const std::string& library) {
    shim::Settings settings;
    TRY(settings.emulator, session_.Emulator());
    settings.emulator.check_numbers = o_.numbers;
    settings.emulator.check_banks = o_.banks;
    settings.single =
        o_.policy != "run-to-block" || o_.async != "early" || o_.policy_seed != 0 || o_.spurious;
    settings.seeds = o_.seeds;
    if (o_.target_said) settings.words = "--gpu=" + Quoted(o_.target) + " ";
    settings.words += "--";
    for (const std::string& word : o_.program_words) settings.words += " " + Quoted(word);
    std::string why;
    const std::string path = folder_.path() + "/" + shim::kSettingsName;
    if (!WriteFileAtomically(path, shim::Print(settings), &why))
      return session_.diags().Report(kFileUnwritable, Span{}, path, why);
    std::error_code error;
    for (const char* name : {"libcuda.so.1", "libcuda.so", "libcudart.so.13"})
      fs::create_symlink(library, folder_.path() + "/" + name, error);
    if (error)
      return session_.diags().Report(kFileUnwritable, Span{}, folder_.path(), error.message());
    return Done();
  }

  // The program's status as wait() gives it.
  Result<int> Run() {
    std::fflush(nullptr);
    int ends[2];  // closed by exec; else it says why there was none
    if (pipe2(ends, O_CLOEXEC) != 0)
      return session_.diags().Report(kNoProgram, Span{}, o_.program_words[0], strerror(errno));
    const pid_t child = fork();
    if (child < 0)
      return session_.diags().Report(kNoProgram, Span{}, o_.program_words[0], strerror(errno));
    if (child == 0) {
      Prepend("LD_LIBRARY_PATH", folder_.path(), ':');
      Prepend("LD_PRELOAD", folder_.path() + "/libcuda.so.1", ':');
      std::vector<char*> words;
      for (const std::string& word : o_.program_words)
        words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      execvp(words[0], words.data());
      const int why = errno;
      if (write(ends[1], &why, sizeof why) < 0) _exit(126);
      _exit(127);
    }
    close(ends[1]);
    int why = 0;
    const bool failed = read(ends[0], &why, sizeof why) == sizeof why;
    close(ends[0]);
    // An interrupt is for the program; what it did until then is reported.
    struct sigaction ignore = {}, before = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &before);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    sigaction(SIGINT, &before, nullptr);
    if (failed)
      return session_.diags()
          .Report(kNoProgram, Span{}, o_.program_words[0], strerror(why))
          .Help("type it behind `--` as a shell would start it: tilec check -- ./app 12");
    return status;
  }

  void Collect() {
    judge::Report all;
    for (const shim::ProcessReport& r : shim::ReadReports(folder_.path())) {
      ++processes_;
      if (r.counts.modules + r.counts.copies + r.counts.launches > 0) called_ = true;
      counts_.launches += r.counts.launches;
      counts_.executions += r.counts.executions;
      counts_.warp_instructions += r.counts.warp_instructions;
      counts_.kernels += r.counts.kernels;
      counts_.refused += r.counts.refused;
      counts_.faults += r.counts.faults;
      counts_.different += r.counts.different;
      notes_.insert(notes_.end(), r.notes.begin(), r.notes.end());
      for (const judge::Finding& f : r.findings) all.Add(f);
    }
    findings_ = all.findings();
    suppressed_ = Suppress(suppressions_, &findings_);
  }

  size_t Count(judge::Severity severity) const {
    return static_cast<size_t>(
        std::count_if(findings_.begin(), findings_.end(),
                      [&](const judge::Finding& f) { return f.severity == severity; }));
  }

  Result<int> Report(int status) {
    const bool good = Count(judge::Severity::kError) == 0 && counts_.different == 0 &&
                      (!o_.strict || Count(judge::Severity::kPortability) == 0);
    std::string text;
    if (o_.format == "json")
      text = AsJson(good, status);
    else if (o_.format == "sarif")
      text = ToSarif(findings_);
    else if (o_.format == "github")
      text = ToGithub(findings_);
    else
      text = AsText(good, status);
    std::string why;
    if (o_.output.empty() || o_.output == "-")
      std::fwrite(text.data(), 1, text.size(), o_.format == "text" ? stderr : stdout);
    else if (!WriteFileAtomically(o_.output, text, &why))
      return session_.diags().Report(kFileUnwritable, Span{}, o_.output, why);
    if (!good) return kMismatch;
    if (!called_)
      return session_.diags()
          .Report(kNoCuda, Span{}, o_.program_words[0])
          .Help("a program that is linked statically as a whole cannot be helped to one");
    if (counts_.launches == 0)
      return session_.diags().Report(kNoLaunch, Span{}, o_.program_words[0]);
    return Code(status);
  }

  static int Code(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  static std::string Ended(int status) {
    return WIFSIGNALED(status) ? fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                                             strsignal(WTERMSIG(status)))
                               : fmt::format("ended with status {}", WEXITSTATUS(status));
  }

  std::string AsText(bool good, int status) const {
    std::string s =
        fmt::format("{}: {} launches", fmt::join(o_.program_words, " "), counts_.launches);
    if (counts_.kernels > 0)
      s += fmt::format(" of {} kinds in {} executions", counts_.kernels, counts_.executions);
    s += fmt::format(", {} warp instructions\n", counts_.warp_instructions);
    s += judge::Summarise(findings_, o_.all_findings);
    for (const std::string& note : notes_) s += fmt::format("  {}\n", note);
    if (suppressed_ > 0) s += fmt::format("  {} suppressed by {}\n", suppressed_, o_.suppress);
    for (const Suppression& row : suppressions_)
      if (row.matched == 0)
        s += fmt::format("  {}:{}: the suppression matches nothing\n", o_.suppress, row.line);
    const size_t errors = Count(judge::Severity::kError);
    const size_t portability = Count(judge::Severity::kPortability);
    const size_t hints = Count(judge::Severity::kHint);
    if (errors + portability + hints > 0)
      s += fmt::format("  {} errors, {} of portability, {} hints\n", errors, portability, hints);
    s += fmt::format("the program {}\n", Ended(status));
    if (!good)
      s += fmt::format("WRONG: {}\n", errors > 0              ? "the checks found errors"
                                      : counts_.different > 0 ? "results depend on the order"
                                                              : "not portable");
    else if (counts_.launches > 0)
      s += counts_.refused > 0
               ? "OK as far as it went: the program asked for what is not supported\n"
               : "OK: no violation in these executions\n";
    return s;
  }

  std::string AsJson(bool good, int status) const {
    Json causes = Json::array();
    for (const judge::Cause& c : judge::FindCauses(findings_))
      causes.push_back({{"finding", c.root}, {"consequences", c.consequences}});
    const Json all = {{"subject", o_.program_words},
                      {"verdict", good ? "ok" : "wrong"},
                      {"status", Code(status)},
                      {"launches", counts_.launches},
                      {"executions", counts_.executions},
                      {"warp_instructions", counts_.warp_instructions},
                      {"different", counts_.different},
                      {"refused", counts_.refused},
                      {"notes", notes_},
                      {"suppressed", suppressed_},
                      {"causes", causes},
                      {"findings", Json::parse(judge::ToJson(findings_))}};
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  Session& session_;
  const tools::Options& o_;
  Folder folder_;
  std::vector<Suppression> suppressions_;
  shim::Counts counts_;
  size_t processes_ = 0, suppressed_ = 0;
  bool called_ = false;
  std::vector<std::string> notes_;
  std::vector<judge::Finding> findings_;
};

}  // namespace

Result<int> CheckProgram(Session& session) { return Program(session).Do(); }

}  // namespace tilec::tools
