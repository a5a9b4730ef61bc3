// SPDX-License-Identifier: Apache-2.0
#include "tools/torch_peer.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <vector>

#include "tools/diagnostics.h"
#include "tools/torch_script.h"

extern char** environ;

namespace tilec::tools {

namespace {

constexpr int kStartMs = 120'000;  // importing PyTorch can take long
constexpr int kTurnMs = 600'000;

class TorchProcess : public TorchPeer {
 public:
  ~TorchProcess() override {
    if (socket_ >= 0) close(socket_);
    if (child_ <= 0) return;
    kill(child_, SIGTERM);
    waitpid(child_, nullptr, 0);
  }

  Result<> Start(const Product& p, const runtime::LaunchArgs& args, const TorchRequest& request,
                 DiagSink& diags) {
    const runtime::TensorView &a = args.tensors.at(p.a), &c = args.tensors.at(p.c);
    const int64_t k = a.dims[p.a_turned ? 0 : 1];
    std::vector<std::string> words = {request.python, "-c", kTorchScript};
    for (int64_t value : {int64_t{request.device}, static_cast<int64_t>(request.sets), c.dims[0],
                          c.dims[1], k, int64_t{p.a_turned}, int64_t{p.b_turned}})
      words.push_back(fmt::format("{}", value));
    words.push_back(ir::Spelling(p.in));
    words.push_back(ir::Spelling(p.out));
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);

    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return Failed("no socket for it", diags);
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const int error =
        posix_spawnp(&child_, request.python.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
      child_ = -1;
      return Failed(fmt::format("there is no `{}`", request.python), diags);
    }
    TRY(const std::string line, ReadLine(kStartMs, diags));
    if (line.rfind("ready ", 0) != 0)
      return Failed(line.rfind("missing ", 0) == 0 ? line.substr(8) : line, diags);
    version_ = line.substr(6);
    return Done();
  }

  std::string version() const override { return version_; }

  Result<double> Time(int launches, DiagSink& diags) override {
    const std::string ask = fmt::format("{}\n", launches);
    if (send(socket_, ask.data(), ask.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(ask.size())) {
      TRY_VOID(Failed("it has ended", diags));
    }
    TRY(const std::string line, ReadLine(kTurnMs, diags));
    double ms = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ms);
    if (error != std::errc() || end != line.data() + line.size() || !(ms > 0)) {
      TRY_VOID(Failed(line, diags));
    }
    return ms;
  }

 private:
  Result<> Failed(const std::string& why, DiagSink& diags) {
    return diags.Report(kNoTorch, Span{}, why)
        .Place("command line")
        .Help("install PyTorch for the python3 on the path, or leave --compare out");
  }

  Result<std::string> ReadLine(int timeout_ms, DiagSink& diags) {
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      pollfd wait{socket_, POLLIN, 0};
      char bytes[4096];
      const ssize_t got =
          poll(&wait, 1, timeout_ms) > 0 ? recv(socket_, bytes, sizeof bytes, 0) : -1;
      if (got <= 0) {
        TRY_VOID(Failed(got == 0 ? "it ended without a word" : "it does not answer", diags));
      }
      buffer_.append(bytes, static_cast<size_t>(got));
    }
  }

  int socket_ = -1;
  pid_t child_ = -1;
  std::string buffer_, version_;
};

}  // namespace

Result<std::unique_ptr<TorchPeer>> StartTorch(const Product& product,
                                              const runtime::LaunchArgs& args,
                                              const TorchRequest& request, DiagSink& diags) {
  auto made = std::make_unique<TorchProcess>();
  TRY_VOID(made->Start(product, args, request, diags));
  return std::unique_ptr<TorchPeer>(std::move(made));
}

}  // namespace tilec::tools
