// A GPU in software, behind the functions of a Driver: memory, streams, events, graphs and capture, with an
// interleaving that a seed fixes. Everything that a real GPU may do in any order, it does in a random one. Kernels are
// functions of the test.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "syncopate/cuda/driver.h"
#include "syncopate/plan/random.h"

namespace syncopate::cuda {

enum class Progress { none, some, done };
/// Called again and again until it is done; each call does a little, or nothing if it has to wait.
using Work = std::function<Progress()>;
/// Starts a kernel with the arguments of its launch.
using KernelStart = std::function<Work(const std::vector<std::uint64_t>& arguments)>;

class SimulatedGpu {
 public:
  explicit SimulatedGpu(std::uint64_t seed);
  SimulatedGpu(const SimulatedGpu&) = delete;
  SimulatedGpu& operator=(const SimulatedGpu&) = delete;
  ~SimulatedGpu();

  /// Its functions reach this object, of which there is one at a time.
  std::shared_ptr<const Driver> driver() const;
  void define(const std::string& kernel, std::size_t arguments, KernelStart start);

  /// Until nothing moves any more. True if all streams are empty then.
  bool run();

  std::size_t largest_allocation = std::size_t{1} << 32;  ///< more is out of memory
  /// The driver fails once, at the operation on a stream before which it takes this many; negative: never.
  int operations_until_failure = -1;
  int streams = 0;  ///< that have not been destroyed
  int graphs_launched = 0;
  std::vector<std::size_t> graph_sizes;        ///< nodes of each graph that was made ready
  std::map<std::string, int> kernels_started;  ///< by name

 private:
  friend struct SimulatedCalls;

  struct Kernel {
    std::string name;
    std::size_t arguments = 0;
    KernelStart start;
  };
  /// Work to be started: a kernel with its arguments, or anything else.
  struct Operation {
    const Kernel* kernel = nullptr;
    std::vector<std::uint64_t> arguments;
    std::function<Work()> make;
  };
  struct Node {
    Operation operation;
    std::vector<std::size_t> after;
  };
  struct GraphNodes {
    std::vector<std::unique_ptr<Node>> nodes;
  };
  struct Executable {
    const GraphNodes* of = nullptr;
    std::map<const Node*, std::vector<std::uint64_t>> arguments;
  };
  struct Queue {
    std::deque<Operation> operations;
    Work current;
    GraphNodes* capture = nullptr;
    std::vector<std::size_t> last;  ///< of the capture
  };
  struct Mark {
    std::int64_t recorded = 0;
    std::int64_t reached = 0;
    std::int64_t time = 0;
    GraphNodes* capture = nullptr;
    std::vector<std::size_t> last;
  };

  void enqueue(Stream stream, Operation operation);
  void enqueue(Stream stream, Work work);
  Work start(const Operation& operation);
  Work start(const Executable& executable);
  bool step();
  bool fails();
  void check_memory(DevicePointer address, std::size_t bytes) const;
  Queue& queue(Stream stream);

  Random random_;
  std::int64_t time_ = 0;  ///< a step takes a microsecond
  std::shared_ptr<Driver> driver_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
  std::map<DevicePointer, std::size_t> memory_;
  std::vector<std::unique_ptr<Queue>> queues_;  ///< the first is the null stream
  std::vector<std::unique_ptr<Mark>> marks_;
  std::vector<std::unique_ptr<GraphNodes>> graphs_;
  std::vector<std::unique_ptr<Executable>> executables_;
};

}  // namespace syncopate::cuda
