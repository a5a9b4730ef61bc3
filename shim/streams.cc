// Streams and events: everything is done when it is submitted, so a stream is in order and an event
// is over when it is recorded. A stream under capture appends to a graph instead.
//
// SPDX-License-Identifier: Apache-2.0
#include "shim/process.h"

#include <algorithm>

namespace tilec::shim {

Stream* Process::FindStream(const void* handle) {
  // Null, cudaStreamLegacy and cudaStreamPerThread.
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return &default_stream_;
  return streams.Find(handle);
}

Code Process::Submit(const void* handle, Work work) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture == nullptr) return Run(work);
  Node* node = nullptr;
  auto& last = stream->last;
  const std::vector<const void*> after(last.begin(), last.end());
  const Code code =
      AddNode(stream->capture.get(), std::move(work), after.data(), after.size(), &node);
  if (code == kOk) last = {node};
  return code;
}

Code Process::Run(const Work& work) {
  struct Runner {
    Process* p;
    Code operator()(const std::monostate&) const { return kOk; }
    Code operator()(const KernelWork& w) const { return p->Launch(w); }
    Code operator()(const CopyWork& w) const { return p->sticky_ ? p->sticky_ : p->Copy(w); }
    Code operator()(const FillWork& w) const { return p->sticky_ ? p->sticky_ : p->Fill(w); }
    Code operator()(const HostWork& w) const {
      if (w.function == nullptr) return kInvalidValue;
      w.function(w.data);
      return kOk;
    }
    Code operator()(const EventWork& w) const {
      if (w.record && p->events.Find(w.event) != nullptr) {
        w.event->recorded = true;
        w.event->milliseconds = p->Now();
      }
      return kOk;
    }
    Code operator()(const GraphWork& w) const {
      GraphExec* exec = nullptr;
      if (const Code code = p->Instantiate(w.graph.get(), &exec); code != kOk) return code;
      const auto held = p->execs.Share(exec);
      p->execs.Remove(exec);
      return p->RunGraph(*held);
    }
  };
  return std::visit(Runner{this}, work);
}

Code Process::RecordEvent(const void* event_handle, const void* stream_handle) {
  Event* event = events.Find(event_handle);
  Stream* stream = FindStream(stream_handle);
  if (event == nullptr || stream == nullptr) return kInvalidHandle;
  event->capture = stream->capture;
  event->capture_id = stream->capture_id;
  event->nodes = stream->last;
  if (stream->capture != nullptr) return kOk;
  event->recorded = true;
  event->milliseconds = Now();
  return sticky_;
}

Code Process::WaitEvent(const void* stream_handle, const void* event_handle) {
  Event* event = events.Find(event_handle);
  Stream* stream = FindStream(stream_handle);
  if (event == nullptr || stream == nullptr) return kInvalidHandle;
  if (event->capture == nullptr) return stream->capture == nullptr ? kOk : kCaptureIsolation;
  if (stream->capture == nullptr) {
    // The stream joins the capture.
    stream->capture = event->capture;
    stream->capture_id = event->capture_id;
    stream->joined = true;
    stream->last = event->nodes;
    return kOk;
  }
  if (stream->capture != event->capture) return kCaptureUnmatched;
  for (Node* node : event->nodes)
    if (std::find(stream->last.begin(), stream->last.end(), node) == stream->last.end())
      stream->last.push_back(node);
  return kOk;
}

Code Process::BeginCapture(const void* handle, std::shared_ptr<Graph> into,
                           std::vector<Node*> after) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream == &default_stream_ && reinterpret_cast<uintptr_t>(handle) != 2)
    return kCaptureUnsupported;
  if (stream->capture != nullptr) return kInvalidValue;
  stream->capture_given = into != nullptr;
  stream->capture = into != nullptr ? std::move(into) : std::make_shared<Graph>();
  stream->capture_id = next_id_++;
  stream->joined = false;
  stream->last = std::move(after);
  return kOk;
}

Code Process::EndCapture(const void* handle, Graph** out) {
  *out = nullptr;
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture == nullptr) return kInvalidValue;
  if (stream->joined) return kCaptureUnmatched;
  std::shared_ptr<Graph> graph = std::move(stream->capture);
  const uint64_t id = stream->capture_id;
  for (const auto& [key, other] : streams.all())
    if (other->capture_id == id) {
      other->capture = nullptr;
      other->joined = false;
      other->last.clear();
      other->capture_id = 0;
    }
  if (default_stream_.capture_id == id) {
    default_stream_.capture = nullptr;
    default_stream_.last.clear();
    default_stream_.capture_id = 0;
  }
  for (const auto& [key, event] : events.all())
    if (event->capture_id == id) {
      event->capture = nullptr;
      event->nodes.clear();
      event->capture_id = 0;
    }
  *out = graphs.Find(graph.get());
  if (*out == nullptr) *out = graphs.Add(std::move(graph));
  return kOk;
}

}  // namespace tilec::shim
