// SPDX-License-Identifier: Apache-2.0
#include "editor/server.h"

#include <utility>

#include "editor/errors.h"

namespace tilec::editor {

namespace {

// Invalid UTF-8 of a document is replaced, not thrown about.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Response(const Json& id, const Json& result) {
  return Dump({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
}
std::string ErrorResponse(const Json& id, int code, const std::string& message) {
  return Dump({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}});
}

}  // namespace

const Server::Row Server::kRequests[] = {
    {"initialize", &Server::Initialize},
    {"shutdown", &Server::Shutdown},
    {"textDocument/hover", &Server::OnHover},
    {"textDocument/definition", &Server::OnDefinition},
    {"textDocument/references", &Server::OnReferences},
    {"textDocument/documentHighlight", &Server::OnHighlight},
    {"textDocument/prepareRename", &Server::OnPrepareRename},
    {"textDocument/rename", &Server::OnRename},
    {"textDocument/completion", &Server::OnCompletion},
    {"textDocument/formatting", &Server::OnFormatting},
    {"textDocument/codeAction", &Server::OnCodeAction},
    {"textDocument/inlayHint", &Server::OnInlayHint},
    {"textDocument/codeLens", &Server::OnCodeLens},
    {"codeLens/resolve", &Server::OnResolveLens},
    {"textDocument/documentSymbol", &Server::OnSymbols},
};

Server::Server(ServerOptions options)
    : options_(std::move(options)), library_(options_.stdlib_dir) {}

std::vector<std::string> Server::Handle(const std::string& message) {
  std::vector<std::string> out;
  const Json json = Json::parse(message, nullptr, false);
  if (json.is_discarded()) return {ErrorResponse(nullptr, kParseError, "this is no JSON")};
  const std::string method = Text(json, "method");
  const bool request = json.is_object() && json.contains("id");
  if (method.empty()) {
    const bool answer = request && (json.contains("result") || json.contains("error"));
    if (!answer)
      out.push_back(ErrorResponse(At(json, "id"), kInvalidRequest, "there is no method"));
    return out;
  }
  if (!request) {
    Notify(method, At(json, "params"), &out);
    return out;
  }
  Failure failure;
  const Json result = Request(method, At(json, "params"), &failure);
  out.push_back(failure.code != 0 ? ErrorResponse(json["id"], failure.code, failure.message)
                                  : Response(json["id"], result));
  return out;
}

Json Server::Request(const std::string& method, const Json& params, Failure* failure) {
  if (!initialized_ && method != "initialize") {
    *failure = {kNotInitialized, "`initialize` comes first"};
    return nullptr;
  }
  if (shut_down_) {
    *failure = {kInvalidRequest, "the server was shut down: only `exit` may follow"};
    return nullptr;
  }
  for (const Row& row : kRequests)
    if (method == row.name) return (this->*row.method)(params, failure);
  *failure = {kMethodNotFound, fmt::format("there is no method `{}`", method)};
  return nullptr;
}

void Server::Notify(const std::string& method, const Json& params, std::vector<std::string>* out) {
  if (method == "exit") exit_code_ = shut_down_ ? 0 : 1;
  if (!initialized_ || shut_down_) return;
  const std::string uri = UriIn(params);
  if (method == "textDocument/didOpen") Update(uri, Text(At(params, "textDocument"), "text"), out);
  if (method == "textDocument/didChange") {
    // Whole documents, as `initialize` says: the last change is the text.
    const Json& changes = At(params, "contentChanges");
    if (changes.is_array() && !changes.empty() && documents_.count(uri))
      Update(uri, Text(changes.back(), "text"), out);
  }
  if (method == "textDocument/didClose" && documents_.erase(uri) > 0)
    out->push_back(Dump({{"jsonrpc", "2.0"},
                         {"method", "textDocument/publishDiagnostics"},
                         {"params", {{"uri", uri}, {"diagnostics", Json::array()}}}}));
}

Json Server::Initialize(const Json&, Failure* failure) {
  if (initialized_) {
    *failure = {kInvalidRequest, "`initialize` came twice"};
    return nullptr;
  }
  initialized_ = true;
  const Json capabilities = {{"positionEncoding", "utf-16"},
                             {"textDocumentSync", {{"openClose", true}, {"change", 1}}},
                             {"hoverProvider", true},
                             {"definitionProvider", true},
                             {"referencesProvider", true},
                             {"documentHighlightProvider", true},
                             {"renameProvider", {{"prepareProvider", true}}},
                             {"completionProvider", {{"triggerCharacters", {".", "\""}}}},
                             {"documentFormattingProvider", true},
                             {"codeActionProvider", {{"codeActionKinds", {"quickfix"}}}},
                             {"inlayHintProvider", true},
                             {"codeLensProvider", {{"resolveProvider", true}}},
                             {"documentSymbolProvider", true}};
  return {{"capabilities", capabilities},
          {"serverInfo", {{"name", "tilec"}, {"version", options_.version}}}};
}

Json Server::Shutdown(const Json&, Failure*) {
  shut_down_ = true;
  return nullptr;
}

Server::Document* Server::Find(const Json& params, Failure* failure) {
  const auto it = documents_.find(UriIn(params));
  if (it != documents_.end()) return &it->second;
  *failure = {kInvalidParams, fmt::format("`{}` is not open", UriIn(params))};
  return nullptr;
}

void Server::Update(const std::string& uri, std::string text, std::vector<std::string>* out) {
  Document& document = documents_[uri];
  document.path = PathOf(uri);
  document.text = std::move(text);
  if (document.current && document.current->ast) document.typed = std::move(document.current);
  document.current = Analyse(document.path, document.text, library_);
  if (document.current->ast) document.typed.reset();
  document.schedules.clear();
  out->push_back(
      Dump({{"jsonrpc", "2.0"},
            {"method", "textDocument/publishDiagnostics"},
            {"params", {{"uri", uri}, {"diagnostics", DiagnosticsOf(*document.current)}}}}));
}

const std::vector<LoopSummary>& Server::Schedules(Document& document, const TypedKernel& kernel) {
  const auto it = document.schedules.find(kernel.name);
  if (it != document.schedules.end()) return it->second;
  return document.schedules[kernel.name] =
             SchedulesOf(*document.current, kernel, options_.target, library_);
}

}  // namespace tilec::editor
