// A folder of a test's own, so that runs beside each other do not meet; gone with the test.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tilec {

class TempFolder {
 public:
  TempFolder() {
    path_ = (std::filesystem::path(::testing::TempDir()) / "tilec_XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no folder like " << path_;
    path_ += '/';
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }  // ends in a slash
  // The file's path.
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + name) << text;
    return path_ + name;
  }

 private:
  std::string path_;
};

}  // namespace tilec
