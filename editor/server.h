// `tilec lsp`: the Language Server Protocol (3.17) over messages, without input or output of its
// own, so that a test can hold a whole session. One message in, the messages out that it causes.
//
// A request that is not understood gets an error response, a notification that is not understood is
// dropped, as the protocol asks. No message can make the server fail: what it reads is checked
// where it is read (json.h), and its answers come from the compiler, which takes any text.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/stdlib.h"
#include "editor/analysis.h"
#include "editor/json.h"
#include "editor/schedules.h"

namespace tilec::editor {

struct ServerOptions {
  std::string target = "h200";
  std::string stdlib_dir;  // as --stdlib
  std::string version;
};

class Server {
 public:
  explicit Server(ServerOptions options);
  // The body of one message; the bodies to send back.
  std::vector<std::string> Handle(const std::string& message);
  // `exit` came: 0 after `shutdown`, else 1; −1: go on.
  int exit_code() const { return exit_code_; }

 private:
  struct Document {
    std::string path, text;
    std::unique_ptr<Analysis> current;  // of `text`
    std::unique_ptr<Analysis> typed;    // an older version, kept while `current` has no tree
    std::map<std::string, std::vector<LoopSummary>> schedules;  // by kernel, as they are asked for
    // The newest version that has a syntax tree.
    const Analysis& tree() const { return current->ast || !typed ? *current : *typed; }
  };
  struct Failure {
    int code = 0;
    std::string message;
  };
  // A result, or (with `failure` set) none.
  using Method = Json (Server::*)(const Json& params, Failure* failure);
  struct Row {
    const char* name;
    Method method;
  };
  static const Row kRequests[];

  void Notify(const std::string& method, const Json& params, std::vector<std::string>* out);
  Json Request(const std::string& method, const Json& params, Failure* failure);

  Json Initialize(const Json& params, Failure* failure);
  Json Shutdown(const Json& params, Failure* failure);
  Json OnHover(const Json& params, Failure* failure);
  Json OnDefinition(const Json& params, Failure* failure);
  Json OnReferences(const Json& params, Failure* failure);
  Json OnHighlight(const Json& params, Failure* failure);
  Json OnPrepareRename(const Json& params, Failure* failure);
  Json OnRename(const Json& params, Failure* failure);
  Json OnCompletion(const Json& params, Failure* failure);
  Json OnFormatting(const Json& params, Failure* failure);
  Json OnCodeAction(const Json& params, Failure* failure);
  Json OnInlayHint(const Json& params, Failure* failure);
  Json OnCodeLens(const Json& params, Failure* failure);
  Json OnResolveLens(const Json& params, Failure* failure);
  Json OnSymbols(const Json& params, Failure* failure);

  // The open document that the parameters name; a failure if there is none.
  Document* Find(const Json& params, Failure* failure);
  void Update(const std::string& uri, std::string text, std::vector<std::string>* out);
  const std::vector<LoopSummary>& Schedules(Document& document, const TypedKernel& kernel);
  std::vector<std::string> NotesOfLoop(Document& document, const Symbol& loop);
  Json DiagnosticsOf(const Analysis& a) const;

  ServerOptions options_;
  api::StandardLibrary library_;
  std::map<std::string, Document> documents_;  // by URI
  bool initialized_ = false, shut_down_ = false;
  int exit_code_ = -1;
};

}  // namespace tilec::editor
