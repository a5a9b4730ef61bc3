// Golden tests of the command line: each *.test file is a list of commands with the exit code and
// the whole output (standard output, then standard error) that is expected of them.
//
//   $ run kernels.tile:scale N=10          runs `tilec run …` in a scratch folder
//   @ driver=stub                          before a command: which driver library it finds
//   @ env=PTXAS=./fake_ptxas               before a command: a variable of its environment
//   exit 2
//   error[…]: …                            output; numbers with a time unit are written as TIME
//
// UPDATE_GOLDEN=1 rewrites the files. Inputs are copied from input/; .npy files are made here.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/npy.h"
#include "support/file.h"

namespace tilec {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string driver;
  std::vector<std::string> environment;  // NAME=VALUE
  std::string command;
  std::string comment;  // lines that start with '#', kept by UPDATE_GOLDEN
  std::string expected;
};

// A case's output ends with a blank line; a new case has none yet.
bool Ended(const std::string& expected) {
  return expected.empty() ||
         (expected.size() > 1 && expected.substr(expected.size() - 2) == "\n\n");
}

std::vector<Case> Parse(const std::string& text) {
  std::vector<Case> cases;
  std::string comment, driver;
  std::vector<std::string> environment;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.substr(0, 1) == "#" && (cases.empty() || Ended(cases.back().expected))) {
      comment += line + "\n";
    } else if (line.substr(0, 9) == "@ driver=") {
      driver = line.substr(9);
    } else if (line.substr(0, 6) == "@ env=") {
      environment.push_back(line.substr(6));
    } else if (line.substr(0, 2) == "$ ") {
      cases.push_back({driver, environment, line.substr(2), comment, ""});
      comment.clear();
      driver.clear();
      environment.clear();
    } else if (!cases.empty()) {
      cases.back().expected += line + "\n";
    }
  }
  for (Case& c : cases)  // one blank line separates cases
    while (c.expected.size() > 1 && c.expected.substr(c.expected.size() - 2) == "\n\n")
      c.expected.pop_back();
  return cases;
}

// "12.5 ms" → "TIME", "2 thread(s)" → "N thread(s)", long hexadecimal numbers → "ADDRESS"; the
// scratch folder → "DIR".
std::string Normalised(std::string text, const std::string& scratch) {
  for (size_t at; (at = text.find(scratch)) != std::string::npos;)
    text.replace(at, scratch.size(), "DIR");
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t j = i;
    if (text.compare(i, 2, "0x") == 0) {  // an address of this run
      while (j + 2 < text.size() && std::isxdigit(static_cast<unsigned char>(text[j + 2]))) ++j;
      if (j - i > 8) {
        out += "ADDRESS";
        i = j + 2;
        continue;
      }
      j = i;
    }
    while (j < text.size() && (std::isdigit(static_cast<unsigned char>(text[j])) || text[j] == '.'))
      ++j;
    bool time = false;
    for (const char* unit : {" ms", " us", " s", " thread(s)", " warp instructions"}) {
      const std::string u = unit;
      if (j > i && text.compare(j, u.size(), u) == 0 &&
          (j + u.size() == text.size() ||
           !std::isalnum(static_cast<unsigned char>(text[j + u.size()])))) {
        out += u.size() > 3 ? "N" + u : "TIME";
        i = j + u.size();
        time = true;
        break;
      }
    }
    if (time) continue;
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0x7f || c >= 0xfe || (c < 0x20 && c != '\n'))
      out += '?';  // bytes of damaged files
    else
      out.append(text, i, std::max<size_t>(1, j - i));
    i = std::max(i + 1, j);
  }
  return out;
}

void Put(const fs::path& path, const std::string& bytes) {
  std::string why;
  ASSERT_TRUE(WriteFileAtomically(path.string(), bytes, &why)) << path << why;
}

// The least that is a cubin: headers of three sections, their names, 16 bytes of code.
std::string Cubin() {
  const std::string names("\0.text.gemm\0.names\0", 19), code(16, '\x7f');
  std::string bytes(64 + 3 * 64, '\0');
  const auto put = [&](size_t at, size_t size, uint64_t value) {
    for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  };
  bytes.replace(0, 6, "\177ELF\2\1");
  put(0x28, 8, 64), put(0x3a, 2, 64), put(0x3c, 2, 3), put(0x3e, 2, 2);
  const auto section = [&](size_t number, uint64_t name, size_t offset, size_t size) {
    const size_t at = 64 + number * 64;
    put(at, 4, name), put(at + 0x18, 8, offset), put(at + 0x20, 8, size);
  };
  section(1, 1, bytes.size(), code.size());
  section(2, 12, bytes.size() + code.size(), names.size());
  return bytes + code + names;
}

// Inputs of all kinds in a fresh folder.
void MakeScratch(const fs::path& dir) {
  fs::remove_all(dir);
  fs::create_directories(dir / "folder");
  for (const auto& e : fs::directory_iterator(fs::path(TILEC_CLI_DIR) / "input"))
    fs::copy(e.path(), dir / e.path().filename());
  Put(dir / "binary.tile", std::string("\x7f"
                                       "ELF\0\1\2\xff\xfe",
                                       9));
  const auto array = [&](const char* name, const char* dtype, std::vector<int64_t> dims) {
    runtime::NpyArray a;
    a.dtype = dtype;
    a.dims = dims;
    int64_t n = dtype[0] == 'f' ? 4 : 2;
    for (int64_t d : dims) n *= d;
    a.bytes.assign(static_cast<size_t>(n), 0);
    const std::string bytes = runtime::NpyBytes(a);
    Put(dir / name, bytes);
    return bytes;
  };
  const std::string good = array("x10.npy", "f32", {10});
  array("x4x6.npy", "f32", {4, 6});
  array("x4x8.npy", "f32", {4, 8});
  array("h4x6.npy", "bf16", {4, 6});
  Put(dir / "cut.npy", good.substr(0, good.size() - 3));
  Put(dir / "long.npy", good + "more");
  Put(dir / "zip.npy", "PK\3\4 this is an archive");
  std::string header = good;
  header[12] = '?';
  Put(dir / "header.npy", header);
  std::string big_endian = good;
  big_endian[big_endian.find('<')] = '>';
  Put(dir / "endian.npy", big_endian);
  Put(dir / "code.cubin", Cubin());
  fs::create_directories(dir / "nodriver");
  Put(dir / "nodriver" / "libcuda.so.1", "this is no library");
  Put(dir / "nodriver" / "libcuda.so", "this is no library");
  for (const char* variant : {"stub", "nogpu", "old", "good", "timed"}) {
    fs::create_directories(dir / variant);
    fs::copy(fs::path(TILEC_FAKE_DIR) / (std::string("libfake_") + variant + ".so"),
             dir / variant / "libcuda.so.1");
  }
}

std::string RunCommand(const Case& c, const fs::path& dir) {
  const std::string driver = c.driver.empty() ? "nodriver" : c.driver;
  std::string line = "cd '" + dir.string() + "' && XDG_CACHE_HOME='" + dir.string() +
                     "/cache' LD_LIBRARY_PATH='" + (dir / driver).string() + "' ";
  for (const std::string& variable : c.environment) line += variable + " ";
  line += "'" + std::string(TILEC_BINARY) + "' " + c.command + " 2>stderr.txt";
  std::FILE* pipe = ::popen(line.c_str(), "r");
  if (!pipe) return "popen failed";
  std::string out;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = ::pclose(pipe);
  std::string errors, why;
  ReadFile((dir / "stderr.txt").string(), &errors, &why);
  const std::string code = WIFEXITED(status) ? std::to_string(WEXITSTATUS(status))
                                             : "by signal " + std::to_string(WTERMSIG(status));
  return Normalised("exit " + code + "\n" + out + errors, dir.string());
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, File) {
  // Of this process alone: other checkouts on the machine run the same test.
  const std::string own = "tilec_cli_" + GetParam() + "_" + std::to_string(::getpid());
  const fs::path dir = fs::path(::testing::TempDir()) / own;
  MakeScratch(dir);
  const fs::path file = fs::path(TILEC_CLI_DIR) / (GetParam() + ".test");
  std::string text, why;
  ASSERT_TRUE(ReadFile(file.string(), &text, &why)) << why;
  const bool update = std::getenv("UPDATE_GOLDEN") != nullptr;
  std::string rewritten;
  const std::vector<Case> cases = Parse(text);
  ASSERT_FALSE(cases.empty());
  for (const Case& c : cases) {
    const std::string got = RunCommand(c, dir);
    EXPECT_EQ(got.find("by signal"), std::string::npos) << c.command;
    if (!update) {
      EXPECT_EQ(got, c.expected) << "of `tilec " << c.command << "`; UPDATE_GOLDEN=1 rewrites "
                                 << file;
    }
    rewritten += (rewritten.empty() ? "" : "\n") + c.comment;
    if (!c.driver.empty()) rewritten += "@ driver=" + c.driver + "\n";
    for (const std::string& variable : c.environment) rewritten += "@ env=" + variable + "\n";
    rewritten += "$ " + c.command + "\n" + got;
  }
  if (update) Put(file, rewritten);
  fs::remove_all(dir);
}

std::vector<std::string> Files() {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(TILEC_CLI_DIR))
    if (e.path().extension() == ".test") names.push_back(e.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cli, Golden, ::testing::ValuesIn(Files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tilec
