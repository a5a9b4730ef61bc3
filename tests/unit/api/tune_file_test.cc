// Files of tunes: what is written is read again, and what is wrong is said where it stands.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/tune_file.h"

#include <gtest/gtest.h>

#include "api/tune_word.h"
#include "tests/unit/api/loaded.h"
#include "tests/unit/temp_folder.h"

namespace tilec::api {
namespace {

constexpr const char* kKernel = R"(
kernel add(X: f32[N], Y: out f32[N]) {
  tune BN = 128 in {128, 256}
  parallel n in tiles(N, BN) {
    Y[n] = X[n] + 1.0
  }
}
)";

TunesRow Row() {
  TunesRow row;
  row.kernel = "t.tile:add";
  row.sizes = {{"N", int64_t{1000}}, {"wide", true}};
  row.values = {{"BN", int64_t{256}}};
  row.schedule = "solve:once";
  row.us = 24.125;
  row.model_us = 27;
  row.machine = "h200";
  row.device = "A \"GPU\" \\ 9";
  row.compiler = CompilerVersion();
  row.source = "abc";
  return row;
}

class TunesFileTest : public ::testing::Test {
 protected:
  void SetUp() override { LoadText(loaded_, kKernel); }
  // What loading the text says.
  std::string Load(const std::string& text) {
    TempFolder folder;
    const std::string path = folder.Write("x.toml", text);
    loaded_.tunes = nullptr;
    DiagSink diags;
    (void)LoadTunes(loaded_, path, diags).ok();
    std::string said = RenderAll(diags, loaded_.sources);
    for (size_t at; (at = said.find(folder.path())) != std::string::npos;)
      said.erase(at, folder.path().size());
    return said;
  }
  Call Of(int64_t n) {
    Call call;
    call.all["N"] = n;
    for (const char* name : {"X", "Y"}) call.facts[name] = {};
    return call;
  }
  // What taking the row for N says; "taken" if there is one.
  std::string Find(int64_t n, const std::string& compiler = CompilerVersion(),
                   const char* machine = "h200") {
    DiagSink diags;
    const auto target = ir::LoadBuiltinTarget(machine, diags);
    const auto signature = frontend::SignatureOf(*loaded_.program, "add", diags);
    const Call call = Of(n);
    const TunesRow like = RowFor(loaded_, "add", call, *target, compiler);
    const auto found = FindRow(loaded_, *signature, call, like, diags);
    std::string said;
    for (const Diagnostic& d : diags.all()) said += std::string(d.def->code) + " " + d.message;
    return said + (found.ok() && *found ? "taken" : "");
  }
  Loaded loaded_;
};

TEST_F(TunesFileTest, IsReadAsItWasWritten) {
  TunesRow other = Row();
  other.sizes = {{"N", int64_t{7}}};
  other.values = {};
  other.schedule = "";
  const std::string text = ToText({Row(), other});
  SourceMap sources;
  DiagSink diags;
  const auto read = ReadTunes(sources, sources.Add("x.toml", text), diags);
  ASSERT_TRUE(read.ok()) << RenderAll(diags, sources);
  ASSERT_EQ(read->rows.size(), 2u);
  EXPECT_EQ(ToText(read->rows), text);
  const TunesRow& row = read->rows[0].sizes.size() == 2 ? read->rows[0] : read->rows[1];
  EXPECT_EQ(row.values, Row().values);
  EXPECT_EQ(row.sizes, Row().sizes);
  EXPECT_EQ(row.device, Row().device);
  EXPECT_EQ(row.schedule, "solve:once");
  EXPECT_EQ(row.us, 24.125);
  EXPECT_EQ(ToText({other, Row()}), text) << "the order is the file's own";
}

TEST_F(TunesFileTest, ARowOfTheSameCallIsReplaced) {
  std::vector<TunesRow> rows = {Row()};
  TunesRow better = Row();
  better.us = 20;
  Merge(better, &rows);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].us, 20);
  better.machine = "b200";
  Merge(better, &rows);
  EXPECT_EQ(rows.size(), 2u);
}

constexpr const char* kHead = "[[tune]]\nkernel = \"t.tile:add\"\nmachine = \"h200\"\n";

TEST_F(TunesFileTest, SaysWhatIsWrongAndWhere) {
  const std::string sizes = "sizes = { N = 8 }\n";
  EXPECT_EQ(Load(kHead + sizes + "values = { BM = 128 }\n"),
            "error[R632]: `add` has no tune `BM`\n"
            "  --> x.toml:5:10\n"
            " 5 | values = { BM = 128 }\n"
            "   |          ^^^^^^^^^^^^\n"
            "  help: did you mean `BN`?\n");
  EXPECT_EQ(
      Load("[[tune]]\nkernel = \"t.tile:ad\"\nmachine = \"h200\"\n" + sizes + "values = { }\n"),
      "error[R632]: `t.tile` has no kernel `ad`\n"
      "  --> x.toml:2:10\n"
      " 2 | kernel = \"t.tile:ad\"\n"
      "   |          ^^^^^^^^^^^\n"
      "  help: did you mean `t.tile:add`?\n");
  EXPECT_EQ(Load(kHead + sizes + "values = { BN = 128 }\nvalue = 3\n"),
            "error[R632]: there is no key `value`\n"
            "  --> x.toml:6:1\n"
            " 6 | value = 3\n"
            "   | ^^^^^\n"
            "  help: did you mean `values`?\n");
  EXPECT_EQ(Load(kHead + sizes + "values = { BN = 1.5 }\n"),
            "error[R632]: `BN` is neither a whole number nor true or false\n"
            "  --> x.toml:5:17\n"
            " 5 | values = { BN = 1.5 }\n"
            "   |                 ^^^\n"
            "  help: write values = { BM = 64 }\n");
  EXPECT_EQ(Load(kHead + sizes),
            "error[R632]: `values` is missing\n"
            "  --> x.toml:1:1\n"
            " 1 | [[tune]]\n"
            "   | ^^^^^^^^\n"
            "  help: write values = { BM = 64 }\n");
  EXPECT_EQ(Load(kHead + sizes + "values = { }\nschedule = \"solv\"\n"),
            "error[R632]: `solv` is no word of --schedule\n"
            "  --> x.toml:6:12\n"
            " 6 | schedule = \"solv\"\n"
            "   |            ^^^^^^\n"
            "  help: write solve, solve:once, solve:clusters, solve:split=2 or leave it out\n");
  EXPECT_EQ(Load("[tuned]\n"),
            "error[R632]: there is no `tuned` in a file of tunes\n"
            "  --> x.toml:1:2\n"
            " 1 | [tuned]\n"
            "   |  ^^^^^\n"
            "  help: write one table `[[tune]]` for each kernel and its sizes\n");
  EXPECT_EQ(Load("[[tune]]\nkernel = \n").substr(0, 12), "error[R632]:");
  EXPECT_EQ(Load("[[tune]]\nmachine = \"h200\"\n"),
            "error[R632]: `kernel` is missing\n"
            "  --> x.toml:1:1\n"
            " 1 | [[tune]]\n"
            "   | ^^^^^^^^\n"
            "  help: write kernel = \"matmul.tile:gemm\"\n");
  DiagSink diags;
  loaded_.tunes = nullptr;
  EXPECT_FALSE(LoadTunes(loaded_, "./nowhere.toml", diags).ok());
  EXPECT_EQ(RenderAll(diags, loaded_.sources),
            "error[R631]: the file of tunes `./nowhere.toml` cannot be read: No such file or "
            "directory\n  help: `tilec tune FILE:KERNEL NAME=VALUE… -o tunes.toml` writes one\n");
}

TEST_F(TunesFileTest, RowsOfOtherFilesAreNotLookedAt) {
  EXPECT_EQ(Load("[[tune]]\nkernel = \"u.tile:ad\"\nmachine = \"h200\"\nsizes = { N = 8 }\n"
                 "values = { Q = 3 }\n"),
            "");
}

TEST_F(TunesFileTest, WhatARowIsOfIsSaidWhereItDiffers) {
  const std::string rest = "sizes = { N = 8 }\nvalues = { BN = 256 }\n";
  ASSERT_EQ(Load(kHead + rest), "");
  EXPECT_EQ(Find(8), "taken");
  EXPECT_NE(Find(9).find("R635"), std::string::npos);
  EXPECT_NE(Find(9).find("has no row for `add` with N = 9: the model chooses"), std::string::npos);
  EXPECT_EQ(
      Find(8, CompilerVersion(), "b200"),
      "R633 `add` was measured for these sizes on h200 alone, this is b200: the model chooses");
  ASSERT_EQ(Load(kHead + rest + "compiler = \"0.1.0\"\n"), "");
  const std::string older = Find(8, "0.2.0");
  EXPECT_EQ(older,
            "R634 `add` was measured by compiler 0.1.0, and this is 0.2.0: its tunes are taken all "
            "the sametaken");
  EXPECT_EQ(Find(8, "0.1.0, commit abc"), "taken") << "the commit is not known everywhere";
  ASSERT_EQ(Load(kHead + rest + "source = \"abc\"\n"), "");
  EXPECT_NE(Find(8).find("of another text of the kernel"), std::string::npos);
}

TEST_F(TunesFileTest, AValueThatIsNotAllowedIsAnErrorWhereItIsTaken) {
  ASSERT_EQ(Load(std::string(kHead) + "sizes = { N = 8 }\nvalues = { BN = 100 }\n"), "");
  const std::string said = Find(8);
  EXPECT_EQ(said.substr(0, 4), "R632");
  EXPECT_EQ(said.find("taken"), std::string::npos);
  EXPECT_EQ(Find(9).substr(0, 4), "R635");
}

TEST(TuneWord, KnowsItsWords) {
  using Kind = TuneWord::Kind;
  EXPECT_EQ(TuneWordOf("measure")->kind, Kind::kMeasure);
  EXPECT_EQ(TuneWordOf("measure=2.5")->seconds, 2.5);
  EXPECT_EQ(TuneWordOf("./tunes")->kind, Kind::kFile);
  EXPECT_EQ(TuneWordOf("classes")->kind, Kind::kClasses);
  for (const char* wrong : {"", "measur", "measure=", "measure=0", "measure=-1", "measure=2s",
                            "measure=nan", "measure=4000"})
    EXPECT_FALSE(TuneWordOf(wrong)) << wrong;
  DiagSink diags;
  EXPECT_FALSE(CheckTune("measur", diags).ok());
  EXPECT_EQ(diags.all()[0].helps[0], "did you mean `measure`?");
}

}  // namespace
}  // namespace tilec::api
