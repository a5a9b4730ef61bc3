// The conformance program. Everything it needs is in it: copy it to a machine with a GPU.
//
//   conformance list | questions         names of all cases; of what has no result to compare with
//   conformance ptxas PATH ACCEPTED REFUSED   which of them an assembler takes
//   conformance record NAMES GOLDEN DIFFERENCES DATE   runs them on cuda:0 and writes down what
//                                        came out
//   conformance ask NAMES FOLDER         runs them there and keeps all bytes that come out
//   conformance compare GOLDEN KNOWN COVERAGE   the emulator against what was written down
//   conformance coverage GOLDEN KNOWN COVERAGE   writes the last of them from the other two
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "tests/conformance/run.h"

namespace {

using namespace tilec;               // NOLINT: a test program
using namespace tilec::conformance;  // NOLINT

std::unique_ptr<runtime::Device> Emulator() {
  runtime::EmulatorOptions options;
  options.arithmetic = runtime::EmulatorOptions::Arithmetic::kExact;
  options.instruction_limit = 20'000'000;
  return runtime::OpenEmulator(options);
}

std::unique_ptr<runtime::Device> Cuda() {
  DiagSink diags;
  auto device = runtime::OpenCuda(0, diags);
  if (device.ok()) return std::move(*device);
  SourceMap sources;
  fmt::print(stderr, "{}", RenderAll(diags, sources));
  std::exit(3);
}

// One run of the assembler over many entries: it names a line for each thing it does not take.
// Returns the entries without any; `why` gets the first complaint about the others.
std::vector<size_t> Assemble(const std::string& ptxas, const std::vector<Case>& cases,
                             const std::vector<size_t>& some, std::map<size_t, std::string>* why) {
  const std::string stem = fmt::format("/tmp/conformance{}", ::getpid());
  std::vector<size_t> owner;  // of each line
  std::ofstream file(stem + ".ptx");
  auto add = [&](const std::string& text, size_t k) {
    file << text;
    owner.insert(owner.end(), static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), k);
  };
  add(ModuleHeader(), SIZE_MAX);
  for (size_t k : some) add(EntryText(cases[k], fmt::format("k{}", k)), k);
  file.close();
  const bool ok = std::system(fmt::format("'{}' -arch=sm_90a {}.ptx -o /dev/null >{}.log 2>&1",
                                          ptxas, stem, stem)
                                  .c_str()) == 0;
  std::ifstream log(stem + ".log");
  bool blamed = false;
  for (std::string line; !ok && std::getline(log, line);) {
    const size_t at = line.find(", line ");
    if (at == std::string::npos || line.find("error") == std::string::npos) continue;
    const size_t number = std::strtoul(line.c_str() + at + 7, nullptr, 10);
    if (number == 0 || number > owner.size() || owner[number - 1] == SIZE_MAX) continue;
    why->emplace(owner[number - 1], line.substr(line.find("error")));
    blamed = true;
  }
  std::remove((stem + ".ptx").c_str());
  std::remove((stem + ".log").c_str());
  std::vector<size_t> good;
  if (!ok && !blamed && some.size() == 1) why->emplace(some[0], "refused");
  for (size_t k : some)
    if (why->count(k) == 0) good.push_back(k);
  if (ok) return good;
  if (blamed) return Assemble(ptxas, cases, good, why);
  if (some.size() == 1) return {};
  const auto middle = some.begin() + static_cast<ptrdiff_t>(some.size() / 2);
  good = Assemble(ptxas, cases, {some.begin(), middle}, why);
  for (size_t k : Assemble(ptxas, cases, {middle, some.end()}, why)) good.push_back(k);
  return good;
}

int Ptxas(const std::string& ptxas, const char* accepted, const char* refused) {
  const std::vector<Case> cases = AllCases();
  std::ofstream yes(accepted), no(refused);
  constexpr size_t kAtOnce = 200;
  for (size_t begin = 0; begin < cases.size(); begin += kAtOnce) {
    std::vector<size_t> some;
    for (size_t k = begin; k < std::min(begin + kAtOnce, cases.size()); ++k) some.push_back(k);
    std::map<size_t, std::string> why;
    for (size_t k : Assemble(ptxas, cases, some, &why)) yes << cases[k].name << "\n";
    for (const auto& [k, text] : why) no << cases[k].name << "\t" << text << "\n";
  }
  return 0;
}

std::vector<Case> CasesAndQuestions() {
  std::vector<Case> cases = AllCases();
  for (Case& c : Questions()) cases.push_back(std::move(c));
  return cases;
}

// Cases of a list of names, each once.
std::vector<Case> CasesNamedIn(const char* names) {
  std::ifstream in(names);
  std::set<std::string> wanted, taken;
  for (std::string line; std::getline(in, line);) wanted.insert(line);
  std::vector<Case> cases = CasesAndQuestions();
  cases.erase(std::remove_if(cases.begin(), cases.end(),
                             [&](const Case& c) {
                               return wanted.count(c.name) == 0 || !taken.insert(c.name).second;
                             }),
              cases.end());
  return cases;
}

// FOLDER/answers.txt names for each case the file with its bytes, or says why there is none.
int Ask(const char* names, const std::string& folder) {
  const std::vector<Case> cases = CasesNamedIn(names);
  std::ofstream list(folder + "/answers.txt");
  RunApart(
      cases, Cuda,
      [&](size_t k, Output o) {
        const std::string file = fmt::format("{}.bin", k);
        list << cases[k].name << "\t" << (o.ran ? file : "NOT RUN " + o.error) << std::endl;
        if (o.ran)
          std::ofstream(folder + "/" + file, std::ios::binary)
              .write(reinterpret_cast<const char*>(o.bytes.data()),
                     static_cast<std::streamsize>(o.bytes.size()));
      },
      60);
  return list ? 0 : 1;
}

int Record(const char* self, const char* names, const char* golden, const char* differences,
           const char* date) {
  const std::vector<Case> cases = CasesNamedIn(names);
  std::vector<Output> silicon(cases.size());
  // The driver must not be met before the fork: another process asks for its name.
  std::string what = "unknown";
  if (std::FILE* pipe = ::popen(fmt::format("'{}' device", self).c_str(), "r")) {
    char text[256] = "";
    if (std::fgets(text, sizeof text, pipe)) what = std::string(text, std::strcspn(text, "\n"));
    ::pclose(pipe);
  }
  std::ofstream out(golden), diff(differences);
  out << "# What silicon makes of each case of tests/conformance; written by `conformance "
         "record`.\n"
      << "# device " << what << "\n# date " << date << "\n";
  const auto start = std::chrono::steady_clock::now();
  size_t ran = 0, different = 0;
  RunApart(
      cases, Cuda,
      [&](size_t k, Output o) {
        silicon[k] = std::move(o);
        if (silicon[k].ran) {
          ++ran;
          out << cases[k].name << "\t" << Digest(cases[k], silicon[k]) << std::endl;
        } else {
          diff << "NOT RUN " << cases[k].name << "\n" << silicon[k].error << std::endl;
        }
      },
      20);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  RunAll(cases, Emulator, [&](size_t k, Output o) {
    if (!silicon[k].ran) return;
    if (!o.ran) {
      diff << "EMULATOR REFUSES " << cases[k].name << "\n" << o.error << "\n";
      Output none = silicon[k];
      std::fill(none.bytes.begin(), none.bytes.end(), uint8_t{0x11});
      diff << Difference(cases[k], silicon[k], none);
      ++different;
      return;
    }
    const std::string text = Difference(cases[k], silicon[k], o);
    if (text.substr(0, 4) == "  0 ") return;
    ++different;
    diff << "DIFFERS " << cases[k].name << "\n" << text;
  });
  fmt::print("{} cases, {} ran in {:.1f} s, {} differ from the emulator\n", cases.size(), ran,
             spent.count(), different);
  return 0;
}

// The cases that a golden file names; `missing` gets names that are no case any more.
std::vector<Case> Named(const Golden& golden, std::vector<std::string>* missing) {
  std::vector<Case> cases = AllCases();
  std::set<std::string> taken;
  cases.erase(std::remove_if(cases.begin(), cases.end(),
                             [&](const Case& c) {
                               return golden.results.count(c.name) == 0 ||
                                      !taken.insert(c.name).second;
                             }),
              cases.end());
  for (const auto& [name, digest] : golden.results)
    if (taken.count(name) == 0) missing->push_back(name);
  return cases;
}

// One line per row of the table: how many cases agree, how many are known not to.
std::string Coverage(const Golden& golden, const std::map<std::string, std::string>& known) {
  std::string text = fmt::format(
      "// What is verified on silicon, per row of ptx_isa.def and in its order: cases that agree,\n"
      "// cases known to differ. Written by `conformance coverage` from tests/conformance.\n//\n"
      "// SPDX-License-Identifier: Apache-2.0\n\nDEVICE(\"{}\", \"{}\")\n",
      golden.device, golden.date);
  std::vector<std::pair<size_t, size_t>> counts(Rows().size());
  for (const Case& c : AllCases()) {
    if (golden.results.count(c.name) == 0) continue;
    (known.count(c.name) != 0 ? counts[c.row].second : counts[c.row].first)++;
  }
  for (size_t k = 0; k < counts.size(); ++k)
    text += fmt::format("FORM({}, {})  // {} {}\n", counts[k].first, counts[k].second,
                        Rows()[k].opcode, std::string(Rows()[k].mods.substr(0, 60)));
  return text;
}

std::string FileText(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

int Compare(const char* path, const char* known_path, const char* coverage, bool write) {
  Golden golden;
  std::string why;
  if (!ReadGolden(path, &golden, &why)) {
    fmt::print(stderr, "{}\n", why);
    return 2;
  }
  std::map<std::string, std::string> known;
  std::ifstream in(known_path);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') {
      const size_t tab = line.find('\t');
      known[line.substr(0, tab)] = tab == std::string::npos ? "" : line.substr(tab + 1);
    }
  if (write) {
    std::ofstream(coverage) << Coverage(golden, known);
    return 0;
  }
  std::vector<std::string> missing;
  const std::vector<Case> cases = Named(golden, &missing);
  size_t bad = missing.size(), agree = 0, expected = 0;
  for (const std::string& name : missing) fmt::print("{}: no such case any more\n", name);
  RunAll(cases, Emulator, [&](size_t k, Output o) {
    const std::string& name = cases[k].name;
    const std::string text = Disagreement(cases[k], golden.results[name], o);
    const bool differs = known.count(name) != 0;
    if (!text.empty() && differs) ++expected;
    if (text.empty() && !differs) ++agree;
    if (text.empty() == !differs) return;
    ++bad;
    fmt::print("{}: {}\n", name,
               differs ? "agrees now: take it out of the known differences" : text);
  });
  if (FileText(coverage) != Coverage(golden, known)) {
    fmt::print("{} is not what `conformance coverage` writes\n", coverage);
    ++bad;
  }
  fmt::print("{} of {} cases agree with {} ({}), {} are known to differ, {} are wrong\n", agree,
             golden.results.size(), golden.device, golden.date, expected, bad);
  return bad == 0 ? 0 : 1;
}

// The emulator alone: which cases it does not run.
int Try(const char* names) {
  const std::vector<Case> cases = CasesNamedIn(names);
  size_t bad = 0;
  RunAll(cases, Emulator, [&](size_t k, Output o) {
    if (o.ran) return;
    ++bad;
    fmt::print("{}: {}\n", cases[k].name, o.error);
  });
  fmt::print("{} of {} cases do not run\n", bad, cases.size());
  return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "list")
    for (const Case& c : AllCases()) fmt::print("{}\n", c.name);
  else if (word == "questions")
    for (const Case& c : Questions()) fmt::print("{}\n", c.name);
  else if (word == "show" && argc == 3) {
    for (const Case& c : CasesAndQuestions())
      if (c.name == argv[2]) fmt::print("{}{}", ModuleHeader(), EntryText(c, "k0"));
  } else if (word == "ptxas" && argc == 5)
    return Ptxas(argv[2], argv[3], argv[4]);
  else if (word == "record" && argc == 6)
    return Record(argv[0], argv[2], argv[3], argv[4], argv[5]);
  else if (word == "ask" && argc == 4)
    return Ask(argv[2], argv[3]);
  else if (word == "device" && argc == 2)
    fmt::print("{}\n", Cuda()->description());
  else if ((word == "compare" || word == "coverage") && argc == 5)
    return Compare(argv[2], argv[3], argv[4], word == "coverage");
  else if (word == "try" && argc == 3)
    return Try(argv[2]);
  else
    return fmt::print(stderr, "conformance: see the head of tests/conformance/main.cc\n"), 2;
  return 0;
}
