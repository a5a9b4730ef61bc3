// Names that files of one library share. They are compiled a few at a time as one translation unit
// (tilec_together in cmake/tilec.cmake), where their anonymous namespaces are one: a type or a
// constant of the same name stops the build, but a function of the same name becomes an overload,
// and which one is called may depend on who stands beside whom. So a name that a file has for
// itself is of one file of its library. Aliases of the same type are the same name, and files under
// APART share with nobody.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

struct OwnName {
  std::string name;
  std::string meaning;  // of an alias: what it stands for; of others nothing
  size_t line = 0;
};

std::string TextOfFile(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The words with which a line begins, one behind the other.
std::string_view FirstWord(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && IsNameByte(text[end])) ++end;
  return text.substr(0, end);
}
bool Skip(std::string_view* text, std::string_view word) {
  if (FirstWord(*text) != word || text->size() == word.size()) return false;
  text->remove_prefix(word.size() + 1);
  return true;
}
// The name at the end of `text`, where something of a type stands before it; else nothing.
std::string_view LastName(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && IsNameByte(text[begin - 1])) --begin;
  const bool typed = begin > 0 && std::string_view(" &*>").find(text[begin - 1]) != text.npos;
  return typed ? text.substr(begin) : std::string_view();
}

// What the line declares at its left margin.
OwnName Declared(std::string_view line) {
  for (std::string_view word : {"namespace", "typedef", "return", "public", "private", "case", "if",
                                "for", "while", "else", "extern"})
    if (FirstWord(line) == word) return {};
  if (Skip(&line, "using")) {
    const std::string_view name = FirstWord(line), rest = line.substr(name.size());
    if (!rest.starts_with(" = ")) return {};
    return {std::string(name), std::string(rest.substr(3))};
  }
  if (line.starts_with("template")) {
    const size_t end = line.find("> ");
    if (end == line.npos) return {};
    line.remove_prefix(end + 2);
  }
  bool type = false;
  for (std::string_view word : {"enum", "struct", "class", "union"})
    type = Skip(&line, word) || type;
  if (type) return {std::string(FirstWord(line)), ""};
  std::string_view begin = line;
  while (Skip(&begin, "inline") || Skip(&begin, "static")) {
  }
  const std::string_view first = FirstWord(begin);
  const size_t end = line.find_first_of("(={;");
  if (end == line.npos) return {};
  std::string_view before = line.substr(0, end);
  if (line[end] == '(') return {std::string(LastName(before)), ""};  // a function
  if (first != "constexpr" && first != "const" && first != "thread_local") return {};
  if (before.ends_with(' ')) before.remove_suffix(1);
  while (before.ends_with(']')) before = before.substr(0, before.rfind('['));
  return {std::string(LastName(before)), ""};
}

// What a file declares at the left margin of its anonymous namespaces, or as static.
std::vector<OwnName> OwnNames(const std::string& text) {
  std::vector<OwnName> names;
  std::istringstream in(text);
  bool anonymous = false;
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line == "namespace {") anonymous = true;
    if (line == "}  // namespace") anonymous = false;
    if (line.empty() || !std::isalpha(static_cast<unsigned char>(line[0]))) continue;
    if (!anonymous && !line.starts_with("static ")) continue;
    OwnName own = Declared(line);
    own.line = number;
    if (!own.name.empty()) names.push_back(std::move(own));
  }
  return names;
}

// Library → its files that are compiled together, as one CMakeLists.txt says.
std::map<std::string, std::vector<std::string>> LibrariesOf(const std::string& cmake) {
  std::map<std::string, std::vector<std::string>> libraries;
  const std::string begin = "tilec_library(";
  for (size_t at = cmake.find(begin); at != std::string::npos; at = cmake.find(begin, at + 1)) {
    std::istringstream words(
        cmake.substr(at + begin.size(), cmake.find(')', at) - at - begin.size()));
    std::string library, word, part;
    words >> library;
    while (words >> word) {
      if (word == "SOURCES" || word == "APART" || word == "DEPS" || word == "PRIVATE_DEPS")
        part = word;
      else if (part == "SOURCES" && word.ends_with(".cc") && word[0] != '$')
        libraries[library].push_back(word);
    }
  }
  return libraries;
}

// "NAME: FILE:LINE and FILE:LINE" of what two of these files (path, text) have for themselves.
std::vector<std::string> SharedNames(
    const std::vector<std::pair<std::string, std::string>>& files) {
  struct First {
    std::string file, meaning;
    size_t line = 0;
  };
  std::vector<std::string> shared;
  std::map<std::string, First> first;
  for (const auto& [path, text] : files)
    for (const OwnName& own : OwnNames(text)) {
      const auto [it, is_new] = first.try_emplace(own.name, First{path, own.meaning, own.line});
      const First& other = it->second;
      if (is_new || other.file == path) continue;
      if (!own.meaning.empty() && own.meaning == other.meaning) continue;
      shared.push_back(own.name + ": " + other.file + ":" + std::to_string(other.line) + " and " +
                       path + ":" + std::to_string(own.line));
    }
  return shared;
}

TEST(Names, FilesOfALibraryShareNone) {
  const std::filesystem::path root = TILEC_SOURCE_DIR;
  size_t seen = 0;
  for (auto it = std::filesystem::recursive_directory_iterator(root);
       it != std::filesystem::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name == "build" || name.starts_with('.')))
      it.disable_recursion_pending();
    if (name != "CMakeLists.txt") continue;
    for (const auto& [library, sources] : LibrariesOf(TextOfFile(it->path()))) {
      std::vector<std::pair<std::string, std::string>> files;
      for (const std::string& source : sources) {
        const std::filesystem::path path = it->path().parent_path() / source;
        ASSERT_TRUE(std::filesystem::exists(path)) << path;
        files.emplace_back(std::filesystem::relative(path, root).string(), TextOfFile(path));
      }
      seen += files.size();
      for (const std::string& line : SharedNames(files))
        ADD_FAILURE()
            << line << ": two files of tilec_" << library
            << " have this name for themselves, and they may be compiled as one; give one of "
               "them a name that says more, or share what it stands for";
    }
  }
  EXPECT_GT(seen, 400u) << "libraries are no longer read from CMakeLists.txt";
}

TEST(Names, RuleJudges) {  // the judge itself
  const std::string one = R"(namespace tilec {
namespace {
constexpr int kMost = 3, kLeast = 1;
using Json = nlohmann::json;
struct Row {
  int Inside() const { return 1; }
};
int64_t Sum(const Row& row, int n) {
  return Other(n);
}
}  // namespace
int Public(int n) { return n; }
)";
  const std::vector<OwnName> names = OwnNames(one);
  ASSERT_EQ(names.size(), 4u);
  EXPECT_EQ(names[0].name + names[1].name + names[2].name + names[3].name, "kMostJsonRowSum");
  const auto shared = [&](const std::string& two) {
    return SharedNames({{"a.cc", one}, {"b.cc", "namespace {\n" + two + "\n}  // namespace\n"}});
  };
  EXPECT_EQ(shared("void Sum(double x) {"), std::vector<std::string>{"Sum: a.cc:8 and b.cc:2"});
  EXPECT_EQ(shared("class Row {").size(), 1u);
  EXPECT_EQ(shared("constexpr int64_t kMost = 4;").size(), 1u);
  EXPECT_EQ(shared("using Json = nlohmann::ordered_json;").size(), 1u);
  EXPECT_EQ(shared("using Json = nlohmann::json;").size(), 0u);
  EXPECT_EQ(shared("int Inside() {\nint Public() {").size(), 0u);
  const auto libraries =
      LibrariesOf("tilec_library(x SOURCES a.cc\n ${made} b.cc APART c.cc DEPS y)");
  EXPECT_EQ(libraries.at("x"), (std::vector<std::string>{"a.cc", "b.cc"}));
}

}  // namespace
