// SPDX-License-Identifier: Apache-2.0
#include "support/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

extern char** environ;

namespace tilec {

bool IsExecutableFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::string FindInPathList(std::string_view path_list, const std::string& program) {
  while (!path_list.empty()) {
    const size_t colon = path_list.find(':');
    const std::string folder(path_list.substr(0, colon));
    path_list.remove_prefix(colon == std::string_view::npos ? path_list.size() : colon + 1);
    const std::string file = folder + "/" + program;
    if (!folder.empty() && IsExecutableFile(file)) return file;
  }
  return "";
}

TemporaryFolder::TemporaryFolder(const std::string& prefix, std::string* why) {
  std::error_code error;
  const std::filesystem::path root = std::filesystem::temp_directory_path(error);
  std::string name = ((error ? std::filesystem::path("/tmp") : root) / (prefix + "-XXXXXX"));
  if (mkdtemp(name.data()))
    path_ = name;
  else
    *why = name + ": " + std::strerror(errno);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

namespace {

// Ours and the settings, as a new program takes them.
std::vector<char*> EnvironmentWith(const std::vector<std::string>& settings) {
  std::vector<char*> all;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) all.push_back(*at);
  const size_t own = all.size();
  for (const std::string& setting : settings) {
    const std::string_view name = std::string_view(setting).substr(0, setting.find('=') + 1);
    if (std::none_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own),
                     [&](const char* known) { return std::string_view(known).starts_with(name); }))
      all.push_back(const_cast<char*>(setting.c_str()));
  }
  all.push_back(nullptr);
  return all;
}

}  // namespace

// Not by fork: a host's pages, a driver's among them, are not to be copied for each program.
int RunLogged(const std::vector<std::string>& argv, const std::string& log,
              const std::vector<std::string>& settings) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  std::vector<char*> environment = EnvironmentWith(settings);
  posix_spawn_file_actions_t files;
  if (posix_spawn_file_actions_init(&files) != 0) return -1;
  pid_t child = 0;
  const bool began =
      posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0600) == 0 &&
      posix_spawn_file_actions_adddup2(&files, 1, 2) == 0 &&
      posix_spawn(&child, args[0], &files, nullptr, args.data(), environment.data()) == 0;
  posix_spawn_file_actions_destroy(&files);
  if (!began) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace tilec
