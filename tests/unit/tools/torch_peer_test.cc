// PyTorch beside `tilec bench`: what it may answer and how it may fail, with shell scripts in the
// place of python3. The last test asks the real one, which need not have PyTorch.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/torch_peer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/temp_folder.h"

namespace tilec::tools {
namespace {

class TorchPeerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    product_ = {"A", "B", "C", false, true, ir::DType::kBF16, ir::DType::kBF16};
    args_.tensors["A"] = {"bf16", 0, {16, 64}, {}};
    args_.tensors["B"] = {"bf16", 0, {32, 64}, {}};
    args_.tensors["C"] = {"bf16", 0, {16, 32}, {}};
  }

  std::string Script(const std::string& text) {
    const std::string path = folder_.Write("python", "#!/bin/sh\n" + text);
    chmod(path.c_str(), 0755);
    return path;
  }
  Result<std::unique_ptr<TorchPeer>> Start(const std::string& python) {
    return StartTorch(product_, args_, {python, 1, 3}, diags_);
  }
  std::string Said() const { return diags_.all().empty() ? "" : diags_.all().back().message; }

  const TempFolder folder_;
  const std::string& dir_ = folder_.path();
  Product product_;
  runtime::LaunchArgs args_;
  DiagSink diags_;
};

TEST_F(TorchPeerTest, AnswersEachTurn) {
  // The arguments behind `-c SCRIPT`: device, sets, m, n, k, turned, turned, in, out.
  auto peer = Start(Script("shift 2; echo ready 1.0; read n; echo 0.25; echo \"$*\" > " + dir_ +
                           "words; read n; echo $n.5; read n; echo nonsense\n"));
  ASSERT_TRUE(peer.ok()) << Said();
  EXPECT_EQ((*peer)->version(), "1.0");
  EXPECT_EQ(*(*peer)->Time(10, diags_), 0.25);
  EXPECT_EQ(*(*peer)->Time(7, diags_), 7.5);
  EXPECT_FALSE((*peer)->Time(7, diags_).ok());
  EXPECT_NE(Said().find("nonsense"), std::string::npos);
  EXPECT_FALSE((*peer)->Time(7, diags_).ok());  // it has ended
  std::ifstream words(dir_ + "words");
  std::string line;
  std::getline(words, line);
  EXPECT_EQ(line, "1 3 16 32 64 0 1 bf16 bf16");
}

TEST_F(TorchPeerTest, SaysWhyThereIsNone) {
  EXPECT_FALSE(Start(dir_ + "none").ok());
  EXPECT_NE(Said().find("there is no"), std::string::npos);
  EXPECT_FALSE(Start(Script("echo 'missing No module named torch'\n")).ok());
  EXPECT_NE(Said().find("No module named torch"), std::string::npos);
  EXPECT_FALSE(Start(Script("exit 1\n")).ok());
  EXPECT_NE(Said().find("ended without a word"), std::string::npos);
  for (const Diagnostic& d : diags_.all()) EXPECT_STREQ(d.def->code, "C727");
}

TEST_F(TorchPeerTest, TheScriptItselfAnswers) {
  if (std::system("python3 -c pass > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3 here";
  const auto peer = Start("python3");
  if (!peer.ok()) {  // no PyTorch, or no GPU for it
    EXPECT_STREQ(diags_.all().back().def->code, "C727");
    EXPECT_EQ(Said().find("SyntaxError"), std::string::npos) << Said();
    EXPECT_EQ(Said().find("ended without a word"), std::string::npos) << Said();
    return;
  }
  EXPECT_GT(*(*peer)->Time(3, diags_), 0);
}

}  // namespace
}  // namespace tilec::tools
