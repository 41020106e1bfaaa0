// What giving work to a GPU costs the host: single operations of the driver, and launches shaped like those of
// operators (a kernel beside a queue of chunks and flags), given as one graph, as a graph for the queue alone, or
// operation by operation. It needs a GPU and nothing else; with two, chunks go to the second.
//   launch_cost
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "syncopate/core/error.h"
#include "syncopate/cuda/device_code.h"
#include "syncopate/cuda/gpu.h"

namespace {

using namespace syncopate;
using namespace syncopate::cuda;

constexpr int kTogether = 8;       // then the host waits, so that no queue fills up
constexpr int kManyTogether = 24;  // what a user may give at once
constexpr int kGroups = 25;
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::int64_t kShort = 2'000;
constexpr std::int64_t kLong = 300'000;

using Give = std::function<void()>;

/// What stands in a launch beside the kernel.
struct Contents {
  int transfers = 4;
  bool chunks = true;
  bool flags = true;           ///< 8 bytes copied behind each chunk
  bool flags_written = false;  ///< instead: a constant written
  std::int64_t kernel = kShort;
};

class Bench {
 public:
  Bench() : driver_(Driver::load()), gpu_(driver_, 0), step_(gpu_.load(kDeviceCode, kStepKernel, 1, 0)) {
    spin_ = gpu_.load(kDeviceCode, kDelayKernel, 1, 0);
    caller_ = gpu_.make_stream(false);
    queue_ = gpu_.make_stream(true);
    started_ = gpu_.make_event();
    drained_ = gpu_.make_event();
    words_ = gpu_.allocate(4096, "words");
    const std::vector<std::int64_t> ones(512, 1);
    gpu_.upload(words_, ones.data(), 4096);
    from_ = gpu_.allocate(kChunk, "a chunk");
    Gpu* to = &gpu_;
    if (driver_->count() > 1) {
      peer_ = std::make_unique<Gpu>(driver_, 1);
      gpu_.enable_peer_access(*peer_);
      to = peer_.get();
    }
    to_ = to->allocate(kChunk + 4096, "a chunk and a flag");
    gpu_.make_current();
  }

  void run() {
    fmt::print("{}, chunks go to {}; microseconds of host time, medians of {} means of {}\n\n", driver_->name(0),
               peer_ ? "another GPU" : "the same GPU", kGroups, kTogether);
    fmt::print("   median   largest\n");
    single_operations();
    launches();
  }

 private:
  void ok(Result result) const { driver_->check(result, "measuring"); }

  void measure(const std::string& name, const Give& give, int together = kTogether) const {
    std::vector<double> means;
    for (int group = 0; group <= kGroups; ++group) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < together; ++i) give();
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      ok(driver_->stream_synchronize(caller_));
      ok(driver_->stream_synchronize(queue_));
      if (group > 0) means.push_back(took.count() / together);
    }
    std::sort(means.begin(), means.end());
    fmt::print("{:>9.2f} {:>9.2f}  {}\n", means[means.size() / 2], means.back(), name);
    std::fflush(stdout);
  }

  void spin(std::int64_t nanoseconds) {
    std::array<void*, 1> parameters{&nanoseconds};
    ok(driver_->launch_kernel(spin_.function, 1, 1, 1, 32, 1, 1, 0, caller_, parameters.data(), nullptr));
  }

  /// The completion of a launch: no waits, no raises.
  void step() {
    std::array<std::uint64_t, 10> values = {words_, 0, words_, 0, words_, words_, 0, words_ + 8, 1, 0};
    std::array<void*, 10> parameters{};
    for (std::size_t i = 0; i < values.size(); ++i) parameters[i] = &values[i];
    ok(driver_->launch_kernel(step_.function, 1, 1, 1, 1, 1, 1, 0, caller_, parameters.data(), nullptr));
  }

  void operate(Stream stream, std::vector<MemoryOperation> operations) const {
    ok(driver_->stream_batch_memory_operations(stream, static_cast<unsigned>(operations.size()), operations.data(), 0));
  }
  MemoryOperation wait() const { return {MemoryOperation::kWait, words_ + 64, 0, kWaitGreaterOrEqual}; }
  MemoryOperation write() const { return {MemoryOperation::kWrite, words_ + 64, 1, kWriteAfterAllBefore}; }

  void transfers(Stream stream, const Contents& of) const {
    operate(stream, {wait(), write()});
    for (int i = 0; i < of.transfers; ++i) {
      if (of.chunks) ok(driver_->copy_async(to_, from_, kChunk, stream));
      if (of.flags) ok(driver_->copy_async(to_ + kChunk + 8 * static_cast<std::size_t>(i), words_, 8, stream));
      if (of.flags_written) operate(stream, {write()});
    }
  }

  void fork() const {
    ok(driver_->event_record(started_, caller_));
    ok(driver_->stream_wait_event(queue_, started_, 0));
  }
  void join() const {
    ok(driver_->event_record(drained_, queue_));
    ok(driver_->stream_wait_event(caller_, drained_, 0));
  }

  void beside(const Contents& of) {
    fork();
    transfers(queue_, of);
    spin(of.kernel);
    join();
    step();
  }
  void in_a_row(const Contents& of) {
    transfers(caller_, of);
    spin(of.kernel);
    step();
  }

  GraphExecutable graph(Stream stream, const Give& give) const {
    Graph graph = nullptr;
    GraphExecutable executable = nullptr;
    ok(driver_->stream_begin_capture(stream, kCaptureRelaxed));
    give();
    ok(driver_->stream_end_capture(stream, &graph));
    ok(driver_->graph_instantiate(&executable, graph, 0));
    ok(driver_->graph_upload(executable, stream));
    ok(driver_->stream_synchronize(stream));
    return executable;
  }

  void measure_graph(const std::string& name, const Give& give, int together = kTogether) const {
    const GraphExecutable executable = graph(caller_, give);
    measure("graph: " + name, [&] { ok(driver_->graph_launch(executable, caller_)); }, together);
    ok(driver_->graph_executable_destroy(executable));
  }

  /// Two graphs in turn: one that still runs is not launched again.
  void measure_in_turn(const std::string& name, const Give& give) const {
    const std::array<GraphExecutable, 2> executables = {graph(caller_, give), graph(caller_, give)};
    std::size_t next = 0;
    measure("two graphs in turn: " + name, [&] { ok(driver_->graph_launch(executables[next ^= 1], caller_)); });
    for (const GraphExecutable each : executables) ok(driver_->graph_executable_destroy(each));
  }

  void measure_split(const std::string& name, const Contents& of) {
    const GraphExecutable executable = graph(queue_, [&] { transfers(queue_, of); });
    measure("graph of the queue, kernels by themselves: " + name, [&] {
      fork();
      ok(driver_->graph_launch(executable, queue_));
      spin(of.kernel);
      join();
      step();
    });
    ok(driver_->graph_executable_destroy(executable));
  }

  void single_operations() {
    Context context = nullptr;
    ok(driver_->context_get_current(&context));
    int status = 0;
    measure("make a context current", [&] { ok(driver_->context_set_current(context)); });
    measure("ask whether a stream is captured", [&] { ok(driver_->stream_is_capturing(caller_, &status)); });
    measure("record an event", [&] { ok(driver_->event_record(started_, caller_)); });
    measure("wait for an event of another stream", [&] { ok(driver_->stream_wait_event(queue_, started_, 0)); });
    measure("launch a small kernel", [&] { step(); });
    measure("copy 8 bytes", [&] { ok(driver_->copy_async(to_ + kChunk, words_, 8, queue_)); });
    measure("copy 1 MiB", [&] { ok(driver_->copy_async(to_, from_, kChunk, queue_)); });
    measure("write a word", [&] { operate(queue_, {write()}); });
    measure("wait for a word and write it, in one", [&] { operate(queue_, {wait(), write()}); });
    fmt::print("\n");
  }

  void launches() {
    measure_graph("a kernel", [&] { spin(kShort); });
    measure_graph("a kernel, a small kernel", [&] { spin(kShort), step(); });
    for (const int count : {1, 2, 4, 8}) {
      const Contents of{.transfers = count};
      const std::string name = fmt::format("{} transfers", count);
      measure_graph(name + " beside the kernel", [&] { beside(of); });
      measure_graph(name + ", then the kernel, in a row", [&] { in_a_row(of); });
      measure_split(name, of);
      measure("operation by operation: " + name, [&] { beside(of); });
    }
    fmt::print("\n");
    measure_graph("4 chunks without flags", [&] { beside({.flags = false}); });
    measure_graph("4 flags without chunks", [&] { beside({.chunks = false}); });
    measure_graph("4 chunks, flags written", [&] { beside({.flags = false, .flags_written = true}); });
    fmt::print("\n");
    const Contents long_kernel{.kernel = kLong};
    const std::string name = "4 transfers beside a kernel of 300 us";
    measure_graph(name, [&] { beside(long_kernel); });
    measure_graph(fmt::format("{}, {} together", name, kManyTogether), [&] { beside(long_kernel); }, kManyTogether);
    measure_in_turn(name, [&] { beside(long_kernel); });
    measure_split(name, long_kernel);
    measure("operation by operation: " + name, [&] { beside(long_kernel); });
  }

  std::shared_ptr<const Driver> driver_;
  Gpu gpu_;
  std::unique_ptr<Gpu> peer_;
  LoadedKernel step_;
  LoadedKernel spin_;
  Stream caller_ = nullptr;
  Stream queue_ = nullptr;
  Event started_ = nullptr;
  Event drained_ = nullptr;
  DevicePointer words_ = 0;
  DevicePointer from_ = 0;
  DevicePointer to_ = 0;
};

}  // namespace

int main() {
  try {
    Bench().run();
    return 0;
  } catch (const UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
