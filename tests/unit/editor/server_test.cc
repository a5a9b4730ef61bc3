// Whole sessions: messages in, messages out.
//
// SPDX-License-Identifier: Apache-2.0
#include "editor/server.h"

#include <gtest/gtest.h>

#include <random>

#include "support/file.h"

namespace tilec::editor {
namespace {

constexpr const char* kUri = "file:///kernels/a.tile";
constexpr const char* kGemm =
    "kernel gemm(A: bf16[M, K], B: bf16[N, K], C: out bf16[M, N]) {\n"
    "  tune BM = 128\n"
    "  tune BN = 256\n"
    "  tune BK = 64\n"
    "  parallel m in tiles(M, BM), n in tiles(N, BN) {\n"
    "    var acc: f32[BM, BN] = 0\n"
    "    for k in tiles(K, BK) {\n"
    "      let b = B[n, k].T\n"
    "      acc += A[m, k] @ b\n"
    "    }\n"
    "    C[m, n] = acc as bf16\n"
    "  }\n"
    "}\n";

class ServerTest : public testing::Test {
 protected:
  ServerTest() : server_({"h200", "", "test"}) {
    Ask("initialize", Json::object());
    Tell("initialized", Json::object());
  }
  Json Ask(const std::string& method, Json params) {
    const Json request = {
        {"jsonrpc", "2.0"}, {"id", ++id_}, {"method", method}, {"params", std::move(params)}};
    const std::vector<std::string> out = server_.Handle(request.dump());
    EXPECT_EQ(out.size(), 1u);
    const Json answer = Json::parse(out.at(0));
    EXPECT_EQ(answer["id"], id_);
    return answer;
  }
  Json Tell(const std::string& method, Json params) {
    const Json note = {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
    Json out = Json::array();
    for (const std::string& text : server_.Handle(note.dump())) out.push_back(Json::parse(text));
    return out;
  }
  // The diagnostics that are published.
  Json Open(const std::string& text) {
    text_ = text;
    return Tell("textDocument/didOpen",
                {{"textDocument", {{"uri", kUri}, {"text", text}, {"version", 1}}}})
        .at(0)["params"]["diagnostics"];
  }
  Json Change(const std::string& text) {
    text_ = text;
    return Tell("textDocument/didChange",
                {{"textDocument", {{"uri", kUri}}}, {"contentChanges", {{{"text", text}}}}})
        .at(0)["params"]["diagnostics"];
  }
  Json Place(const std::string& before, size_t into = 0) const {
    const LineIndex lines(text_);
    const size_t at = text_.find(before);
    EXPECT_NE(at, std::string::npos) << before;
    return {{"textDocument", {{"uri", kUri}}},
            {"position", ToJson(lines.PositionOf(static_cast<uint32_t>(at + into)))}};
  }
  std::string Hover(const std::string& before, size_t into = 0) {
    const Json answer = Ask("textDocument/hover", Place(before, into))["result"];
    return answer.is_null() ? "" : answer["contents"]["value"].get<std::string>();
  }
  // The document with the edits of a workspace edit, or of a list of edits, made.
  std::string Applied(const Json& edits) const {
    std::string text = text_;
    const LineIndex lines(text_);
    for (size_t i = edits.size(); i-- > 0;) {
      const Range range = ReadRange(edits[i]["range"]);
      const uint32_t begin = lines.OffsetOf(range.start), end = lines.OffsetOf(range.end);
      text.replace(begin, end - begin, edits[i]["newText"].get<std::string>());
    }
    return text;
  }
  Server server_;
  std::string text_;
  int id_ = 0;
};

TEST_F(ServerTest, DiagnosticsComeAndGo) {
  EXPECT_EQ(Open(kGemm), Json::array());
  std::string wrong = kGemm;
  wrong.replace(wrong.find("A[m, k]"), 7, "A[m, q]");
  const Json found = Change(wrong);
  ASSERT_EQ(found.size(), 1u) << found;
  EXPECT_EQ(found[0]["severity"], 1);
  EXPECT_EQ(found[0]["range"]["start"], (Json{{"line", 8}, {"character", 18}}));
  EXPECT_EQ(found[0]["range"]["end"], (Json{{"line", 8}, {"character", 19}}));
  EXPECT_EQ(Change(kGemm), Json::array());
  EXPECT_EQ(Change("kernel k(").size(), 1u);
  const Json closed = Tell("textDocument/didClose", {{"textDocument", {{"uri", kUri}}}});
  EXPECT_EQ(closed.at(0)["params"]["diagnostics"], Json::array());
}

TEST_F(ServerTest, HoverShowsShapesAndSchedules) {
  Open(kGemm);
  EXPECT_NE(Hover("b = B").find("let b: bf16[64, 256]"), std::string::npos) << Hover("b = B");
  EXPECT_NE(Hover("A[m, k] @ b", 8).find("f32[128, 256]"), std::string::npos);
  EXPECT_NE(Hover("A: bf16").find("A: bf16[M, K]"), std::string::npos);
  EXPECT_NE(Hover("BM = 128").find("tune BM = 128"), std::string::npos);
  const std::string loop = Hover("k in tiles");
  EXPECT_NE(loop.find("on h200: II "), std::string::npos) << loop;
  EXPECT_EQ(Hover("  tune", 0), "");
}

TEST_F(ServerTest, HoverSaysWhichLoopIsNotCompiled) {
  std::string two = kGemm;
  const size_t at = two.find("    for k in tiles");
  const size_t end = two.find("    C[m, n]");
  const std::string loop = two.substr(at, end - at);
  std::string other = loop;
  other.replace(other.find("k in"), 4, "j in");
  other.replace(other.find("n, k"), 4, "n, j");
  other.replace(other.find("m, k"), 4, "m, j");
  two.replace(at, end - at, "    if BM == 64 {\n" + other + "    } else {\n" + loop + "    }\n");
  ASSERT_EQ(Open(two), Json::array());
  EXPECT_NE(Hover("k in tiles").find("on h200: II "), std::string::npos) << Hover("k in tiles");
  EXPECT_NE(Hover("j in tiles").find("on h200: not in the program of these values"),
            std::string::npos)
      << Hover("j in tiles");
}

TEST_F(ServerTest, TheLensSaysWhatTheHoverSays) {
  Open(kGemm);
  const Json lenses = Ask("textDocument/codeLens", {{"textDocument", {{"uri", kUri}}}})["result"];
  ASSERT_EQ(lenses.size(), 1u);
  const std::string title =
      Ask("codeLens/resolve", lenses[0])["result"]["command"]["title"].get<std::string>();
  ASSERT_EQ(title.compare(0, 9, "h200: II "), 0) << title;
  EXPECT_NE(Hover("k in tiles").find("on " + title), std::string::npos);
}

TEST_F(ServerTest, DefinitionReferencesRename) {
  Open(kGemm);
  const Json definition = Ask("textDocument/definition", Place("acc as"))["result"];
  EXPECT_EQ(definition["uri"], kUri);
  EXPECT_EQ(definition["range"]["start"], (Json{{"line", 5}, {"character", 8}}));
  EXPECT_EQ(Ask("textDocument/references", Place("acc as"))["result"].size(), 3u);
  Json rename = Place("acc as");
  rename["newName"] = "total";
  const Json edit = Ask("textDocument/rename", rename)["result"]["changes"][kUri];
  const std::string renamed = Applied(edit);
  EXPECT_EQ(edit.size(), 3u);
  EXPECT_EQ(renamed.find("acc"), std::string::npos);
  EXPECT_EQ(Change(renamed), Json::array());
  for (const char* name : {"BM", "for", "1a", ""}) {
    Json refused = Place("total as");
    refused["newName"] = name;
    EXPECT_TRUE(Ask("textDocument/rename", refused).contains("error")) << name;
  }
}

TEST_F(ServerTest, FixesAreTriedBeforeTheyAreOffered) {
  std::string wrong = kGemm;
  wrong.replace(wrong.find("acc as bf16"), 3, "acd");
  const Json found = Open(wrong);
  ASSERT_EQ(found.size(), 1u);
  Json params = {{"textDocument", {{"uri", kUri}}}, {"range", found[0]["range"]}};
  const Json actions = Ask("textDocument/codeAction", params)["result"];
  ASSERT_EQ(actions.size(), 1u) << actions;
  EXPECT_EQ(actions[0]["title"], "write `acc`");
  EXPECT_EQ(Applied(actions[0]["edit"]["changes"][kUri]), kGemm);
}

TEST_F(ServerTest, FormatsAndHints) {
  std::string loose = kGemm;
  loose.replace(loose.find("tune BM = 128"), 13, "tune   BM=128");
  Open(loose);
  const Json edits = Ask("textDocument/formatting", {{"textDocument", {{"uri", kUri}}}})["result"];
  EXPECT_EQ(Applied(edits), kGemm);
  const Range all{{0, 0}, {100, 0}};
  const Json hints = Ask("textDocument/inlayHint",
                         {{"textDocument", {{"uri", kUri}}}, {"range", ToJson(all)}})["result"];
  ASSERT_EQ(hints.size(), 1u) << "acc says its type, b does not";
  EXPECT_EQ(hints[0]["label"], ": bf16[64, 256]");
}

TEST_F(ServerTest, CompletesNamesMembersAndModules) {
  const auto labels = [&](const Json& params) {
    std::vector<std::string> out;
    const Json answer = Ask("textDocument/completion", params);
    for (const Json& one : answer["result"]) out.push_back(one["label"].get<std::string>());
    return out;
  };
  const auto has = [](const std::vector<std::string>& all, const std::string& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  Open(kGemm);
  const auto inside = labels(Place("acc += A", 7));
  for (const char* name : {"acc", "BM", "m", "k", "b", "A", "K", "exp2", "bf16", "while"})
    EXPECT_TRUE(has(inside, name)) << name;
  EXPECT_FALSE(has(labels(Place("tune BM", 5)), "acc"));
  EXPECT_EQ(labels(Place("k].T", 3)).size(), 6u);
  // A line that is being typed has syntax errors; names come from the tree before it.
  std::string typing = kGemm;
  typing.replace(typing.find("C[m, n] = acc as bf16"), 21, "C[m, n] = ac");
  typing += "import \"std/";
  Change(typing);
  EXPECT_TRUE(has(labels(Place("import \"std/", 12)), "std/matmul"));
}

TEST_F(ServerTest, RequestsInTheWrongPlaceAreErrors) {
  Server fresh({"h200", "", "test"});
  const auto code = [&](const Json& message) {
    const auto out = fresh.Handle(message.dump());
    return out.empty() ? 0 : static_cast<int>(Number(At(Json::parse(out[0]), "error"), "code", 0));
  };
  EXPECT_EQ(code({{"id", 1}, {"method", "textDocument/hover"}}), -32002);
  EXPECT_EQ(code({{"id", 1}}), -32600);
  EXPECT_EQ(code({{"id", 1}, {"method", "initialize"}}), 0);
  EXPECT_EQ(code({{"id", 1}, {"method", "initialize"}}), -32600);
  EXPECT_EQ(code({{"id", 1}, {"method", "frobnicate"}}), -32601);
  EXPECT_EQ(code({{"id", 1}, {"method", "textDocument/hover"}}), -32602) << "nothing is open";
  EXPECT_EQ(Json::parse(fresh.Handle("{oops").at(0))["error"]["code"], -32700);
  EXPECT_EQ(code({{"id", 1}, {"method", "shutdown"}}), 0);
  EXPECT_EQ(code({{"id", 1}, {"method", "textDocument/hover"}}), -32600);
  EXPECT_EQ(fresh.exit_code(), -1);
  (void)fresh.Handle(R"({"method":"exit"})");
  EXPECT_EQ(fresh.exit_code(), 0);
}

// Whole messages with members of wrong types, missing or from elsewhere, and texts cut anywhere.
TEST_F(ServerTest, NoMessageStopsTheServer) {
  const char* methods[] = {
      "textDocument/didOpen",    "textDocument/didChange",  "textDocument/hover",
      "textDocument/definition", "textDocument/rename",     "textDocument/completion",
      "textDocument/codeAction", "textDocument/inlayHint",  "textDocument/codeLens",
      "codeLens/resolve",        "textDocument/formatting", "textDocument/documentSymbol"};
  const Json values[] = {nullptr,
                         7,
                         -1.5,
                         true,
                         "text",
                         Json::array({1, "a"}),
                         Json::object(),
                         kUri,
                         Json{{"uri", kUri}},
                         Json{{"line", -5}, {"character", 1e18}},
                         Json{{"line", 3}, {"character", 2}}};
  constexpr unsigned kSeed = 20261123;
  std::mt19937 random(kSeed);
  const auto pick = [&](const auto& list) { return list[random() % std::size(list)]; };
  for (int i = 0; i < 3000; ++i) {
    if (i % 50 == 0) Open(std::string(kGemm).substr(0, random() % std::string(kGemm).size()));
    Json params = Json::object();
    for (const char* key :
         {"textDocument", "position", "range", "contentChanges", "newName", "data"})
      if (random() % 4 != 0) params[key] = pick(values);
    Json message = {{"method", pick(methods)}, {"params", random() % 20 ? params : pick(values)}};
    if (random() % 3) message["id"] = pick(values);
    for (const std::string& out : server_.Handle(message.dump()))
      EXPECT_FALSE(Json::parse(out).is_discarded()) << "seed " << kSeed << ", message " << i;
  }
  EXPECT_EQ(server_.exit_code(), -1);
  Open(kGemm);
  EXPECT_NE(Hover("b = B"), "");
}

}  // namespace
}  // namespace tilec::editor
