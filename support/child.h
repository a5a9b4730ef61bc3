// Programs of a toolkit that tilec runs for an answer: where one is, a folder for its files, and
// its exit status with all that it prints.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilec {

bool IsExecutableFile(const std::string& path);

// `program` in the folders of a list as $PATH has it; "" if none has it.
std::string FindInPathList(std::string_view path_list, const std::string& program);

// A folder that disappears with its contents.
class TemporaryFolder {
 public:
  // `prefix` begins its name. On failure path() is empty and `why` says more.
  TemporaryFolder(const std::string& prefix, std::string* why);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs argv with both outputs into `log`; the exit status, −1 if it did not run or was killed.
// `settings`: NAME=VALUE in its environment, each unless ours has that name.
int RunLogged(const std::vector<std::string>& argv, const std::string& log,
              const std::vector<std::string>& settings = {});

}  // namespace tilec
