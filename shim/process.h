// The GPU of one process: memory, modules, streams, graphs and launches of a program that was built
// for CUDA, on the emulator, with the judge on. driver_*.cc and runtime_*.cc are the two interfaces
// that programs call; they hold nothing themselves.
//
// One device, one context. Streams are in order, and everything is done before the call returns:
// what two streams would do at the same time is not looked for. Programs that are captured into a
// graph are lists.
//
// There is one object for each process, made at the first call: the driver's interface has nothing
// that could carry it. Every public member takes the lock; kernels run inside of it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "runtime/emulator/inspect.h"
#include "runtime/emulator/judge/finding.h"
#include "shim/fatbin.h"
#include "shim/settings.h"
#include "shim/types.h"

namespace tilec::shim {

struct Library;

struct Function {
  Library* library = nullptr;
  std::string name;
  runtime::EntryFacts facts;
  uint64_t most_dynamic = 0;  // bytes of shared memory that it may be launched with
  bool non_portable = false;  // clusters of more than eight
  int carveout = -1;
};

// A fatbin, PTX text or the like, loaded when something of it is asked for.
struct Library {
  std::string name;  // how reports call it
  std::vector<std::string> texts, targets;
  std::vector<uint32_t> machine_code;  // architectures of it
  std::string wrong;                   // of the image
  bool tried = false;
  Code failed = kOk;
  std::unique_ptr<runtime::Module> module;
  std::vector<runtime::VariableFacts> variables;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

enum class Place : uint8_t { kDevice, kPinned, kManaged, kVariable };
struct Block {
  uint64_t bytes = 0;
  Place place = Place::kDevice;
};

struct KernelWork {
  Function* function = nullptr;
  runtime::LaunchConfig config;
  bool cooperative = false;
  std::vector<runtime::KernelArg> arguments;
};
struct CopyWork {  // rows of slices; strides in bytes
  uint64_t to = 0, from = 0;
  uint64_t to_pitch = 0, from_pitch = 0, to_slice = 0, from_slice = 0;
  uint64_t width = 0, height = 1, depth = 1;
  // Sides that are memory of the device: the caller says so, or they were when a node was made of
  // the copy. Freed since, the address is one of the host, and somebody else's.
  bool to_device = false, from_device = false;
};
struct FillWork {
  uint64_t to = 0, pitch = 0, width = 0, height = 1;  // width in elements
  uint32_t value = 0, element_bytes = 1;
};
struct HostWork {
  void (*function)(void*) = nullptr;
  void* data = nullptr;
};
struct Event;
struct EventWork {
  Event* event = nullptr;
  bool record = false;
};
struct Graph;
struct GraphWork {
  std::shared_ptr<Graph> graph;
};
using Work =
    std::variant<std::monostate, KernelWork, CopyWork, FillWork, HostWork, EventWork, GraphWork>;

struct Node {
  Graph* graph = nullptr;
  Work work;
  std::vector<Node*> after;
  bool enabled = true;
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  // What the parameters of the last query point to.
  std::vector<std::vector<void*>> pointers;
};
struct GraphExec {
  struct Step {
    Node* origin;
    Work work;
    bool enabled;
  };
  std::vector<Step> steps;
  std::shared_ptr<Graph> graph;  // keeps the origins
};

struct Stream {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  std::shared_ptr<Graph> capture;
  bool capture_given = false;  // into a graph of the program's
  bool joined = false;         // by an event: another stream ends the capture
  std::vector<Node*> last;     // what the next node comes after
  uint64_t capture_id = 0;
};
struct Event {
  unsigned flags = 0;
  bool recorded = false;
  double milliseconds = 0;
  std::shared_ptr<Graph> capture;
  std::vector<Node*> nodes;
  uint64_t capture_id = 0;
};

// Objects that programs hold handles of.
template <typename T>
class Handles {
 public:
  T* Add(std::shared_ptr<T> object) {
    T* p = object.get();
    all_[p] = std::move(object);
    return p;
  }
  T* Find(const void* handle) const {
    auto it = all_.find(handle);
    return it == all_.end() ? nullptr : it->second.get();
  }
  std::shared_ptr<T> Share(const void* handle) const {
    auto it = all_.find(handle);
    return it == all_.end() ? nullptr : it->second;
  }
  bool Remove(const void* handle) { return all_.erase(handle) > 0; }
  const std::unordered_map<const void*, std::shared_ptr<T>>& all() const { return all_; }

 private:
  std::unordered_map<const void*, std::shared_ptr<T>> all_;
};

class Process {
 public:
  static Process& Get();
  // For tests and fuzzers: a process of its own, which says what it says to nobody.
  explicit Process(Settings settings, std::string folder);
  ~Process();

  std::recursive_mutex& mutex() { return mutex_; }
  const runtime::MachineLimits& machine() const { return settings_.emulator.machine; }
  int capability() const { return capability_; }  // 90
  uint64_t memory_bytes() const { return settings_.emulator.memory_limit_bytes; }
  uint64_t free_bytes() const;

  // ---- memory (memory.cc) ----
  Code Alloc(uint64_t bytes, Place place, uint64_t* address);
  Code Free(uint64_t address);
  // The allocation that holds the address; its begin.
  const Block* FindBlock(uint64_t address, uint64_t* begin = nullptr) const;
  Code Copy(const CopyWork& copy);
  // What a node keeps of a copy's sides.
  void Remember(Work* work) const;
  Code Fill(const FillWork& fill);

  // ---- modules (modules.cc) ----
  // Reads the image; loads it later. `bytes` 0: the image says.
  Code NewLibrary(const void* image, Library** out);
  Library* FindLibrary(const void* handle) const { return libraries_.Find(handle); }
  Code RemoveLibrary(const void* handle);
  Code Load(Library* library);
  Code FindFunction(Library* library, const std::string& name, Function** out);
  Function* FunctionOf(const void* handle) const;
  Code FindVariable(Library* library, const std::string& name, uint64_t* address, uint64_t* bytes);
  Code SetAttribute(Function* f, int attribute, int value);
  Code GetAttribute(Function* f, int attribute, int* value);
  int BlocksPerSm(const Function* f, int threads, uint64_t dynamic) const;

  // ---- launches (launch.cc) ----
  Code Launch(const KernelWork& work);
  // From pointers to arguments, or the packed form of `extra`.
  Code Arguments(Function* f, void** parameters, void** extra, KernelWork* out);
  Code Attributes(const LaunchAttribute* attributes, uint32_t count, KernelWork* out);
  Code sticky() const { return sticky_; }

  // ---- streams, events, graphs (streams.cc, graphs.cc) ----
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Graph> graphs;
  Handles<GraphExec> execs;
  // Null, and the two words of the default streams: the default stream.
  Stream* FindStream(const void* handle);
  Code Submit(const void* stream, Work work);
  Code Run(const Work& work);
  Code RecordEvent(const void* event, const void* stream);
  Code WaitEvent(const void* stream, const void* event);
  Code BeginCapture(const void* stream, std::shared_ptr<Graph> into, std::vector<Node*> after);
  Code EndCapture(const void* stream, Graph** out);
  Node* FindNode(const void* handle) const;
  Code AddNode(Graph* graph, Work work, const void* const* after, size_t count, Node** out);
  Code Instantiate(Graph* graph, GraphExec** out);
  Code RunGraph(const GraphExec& exec);
  // The same graph with other parameters.
  Code Update(GraphExec* exec, Graph* graph);
  double Now() const;

  // ---- what is said ----
  // One line, once: to standard error and to the report.
  void Note(const std::string& line);
  // "the program calls NAME, which is not supported".
  Code Refuse(const std::string& name);
  Counts& counts() { return *counts_; }
  void WriteFindings();
  std::vector<runtime::judge::Finding> findings() const { return report_->findings(); }

 private:
  friend class Explorer;
  Code FailOf(const DiagSink& diags, const std::string& kernel);
  void MapCounts();
  Code Explore(const KernelWork& work, std::vector<uint64_t>* hashes,
               std::vector<std::string>* words);
  void Execute(const KernelWork& work, const Plan& plan, int answer_to);
  uint64_t HashMemory() const;
  runtime::EmulatorOptions OptionsOf(const Plan& plan) const;

  mutable std::recursive_mutex mutex_;
  Settings settings_;
  std::string folder_;  // "": nobody reads
  int capability_ = 90;
  std::shared_ptr<runtime::judge::Report> report_;
  std::unique_ptr<runtime::Device> device_;
  std::map<uint64_t, Block> blocks_;
  uint64_t used_ = 0;
  Handles<Library> libraries_;
  std::unordered_map<const void*, Function*> functions_;
  int library_number_ = 0;
  std::set<std::string> explored_;
  Code sticky_ = kOk;
  Stream default_stream_;
  uint64_t next_id_ = 1;
  std::set<std::string> said_;
  Counts own_counts_;
  Counts* counts_ = &own_counts_;
  int owner_ = 0;  // process id: a fork of the program writes files of its own
  size_t written_ = 0;
  uint64_t written_counts_ = 0;
};

}  // namespace tilec::shim
