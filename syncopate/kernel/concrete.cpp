#include "syncopate/kernel/concrete.h"

#include <fmt/format.h>

#include <utility>

#include "syncopate/core/error.h"
#include "syncopate/core/text.h"
#include "syncopate/kernel/concrete_domain.h"

namespace syncopate {
namespace {

using concrete::ConcreteDomain;

concrete::Value argument_value(const Argument& argument, bool constexpr_) {
  if (const auto* integer = std::get_if<std::int64_t>(&argument)) {
    if (constexpr_) return concrete::weak_integer(*integer);
    const bool narrow = concrete::wrap(*integer, Dtype::int32) == *integer;  // as Triton specialises
    return concrete::integer_value(*integer, narrow ? Dtype::int32 : Dtype::int64);
  }
  if (const auto* number = std::get_if<double>(&argument))
    return constexpr_ ? concrete::weak_number(*number) : concrete::floating_value(*number, Dtype::fp32);
  if (const auto* boolean = std::get_if<bool>(&argument)) return concrete::boolean_value(*boolean);
  const auto& buffer = std::get<BufferArgument>(argument);
  concrete::Value result;
  result.kind = concrete::Kind::pointer;
  result.dtype = buffer.dtype;
  result.buffer = buffer.buffer;
  return result;
}

}  // namespace

void Environment::raise(int, std::int64_t, std::int64_t, const SourceLocation&) {
  throw InternalError("a kernel raises a flag in an environment for kernels that raise none");
}

std::optional<std::int64_t> Environment::take(const TakeRequest&) {
  throw InternalError("a kernel takes slots in an environment for kernels that take none");
}

void Environment::deny(const std::string& assertion, const SourceLocation& where) {
  throw UserError(where, assertion, "change the data, or the kernel's assertion");
}

struct Worker::Impl {
  ConcreteDomain domain;
  Machine<ConcreteDomain> machine;

  Impl(std::shared_ptr<const Program> program, std::vector<std::int64_t> ids, std::vector<std::int64_t> counts,
       Environment& environment)
      : domain(program, std::move(ids), std::move(counts), environment), machine(std::move(program), domain) {}

  void set_arguments(const Arguments& arguments) {
    const Program& program = machine.program();
    const Function* const function = program.module->find(program.name);
    const SourceLocation where =
        function ? program.module->locate(function->name_range) : SourceLocation{program.module->source->name(), 0, 0};
    for (const auto& [name, value] : arguments) {
      if (program.find_parameter(name)) continue;
      std::vector<std::string> known;
      for (const ProgramParameter& parameter : program.parameters) known.push_back(parameter.name);
      throw UserError(where, fmt::format("'{}' has no parameter '{}'", program.name, name), suggest(name, known));
    }
    for (const ProgramParameter& parameter : program.parameters) {
      const auto given = arguments.find(parameter.name);
      if (given != arguments.end())
        machine[parameter.value] = argument_value(given->second, parameter.constexpr_);
      else if (parameter.default_value != kNoRegister)
        machine[parameter.value] = machine[parameter.default_value];
      else
        throw UserError(where, fmt::format("no argument for the parameter '{}' of '{}'", parameter.name, program.name),
                        "give it a value");
    }
  }
};

Worker::Worker(std::shared_ptr<const Program> program, const Arguments& arguments,
               std::vector<std::int64_t> program_ids, std::vector<std::int64_t> program_counts,
               Environment& environment)
    : impl_(
          std::make_unique<Impl>(std::move(program), std::move(program_ids), std::move(program_counts), environment)) {
  impl_->set_arguments(arguments);
}

Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;

namespace {

Worker::State worker_state(MachineState state) {
  switch (state) {
    case MachineState::running:
      return Worker::State::running;
    case MachineState::blocked:
      return Worker::State::blocked;
    case MachineState::finished:
      return Worker::State::finished;
  }
  throw InternalError("unknown machine state");
}

}  // namespace

Worker::State Worker::step() { return worker_state(impl_->machine.run<true>(impl_->domain)); }

Worker::State Worker::state() const { return worker_state(impl_->machine.state()); }

const WaitRequest& Worker::blocked_on() const {
  check_internal(state() == State::blocked && impl_->domain.blocked_on(), "the worker is not blocked by a wait");
  return *impl_->domain.blocked_on();
}

struct ReorderedKernel::Impl {
  std::shared_ptr<const Program> program;
  std::vector<LoweredLoop> loops;
};

ReorderedKernel::ReorderedKernel(const TileKernel& kernel) : impl_(std::make_unique<Impl>()) {
  const TileScheduler& scheduler = kernel.scheduler();
  impl_->program =
      lower(kernel.shared_module(), kernel.function(), scheduler.index_variables, scheduler.last_assignment);
  impl_->loops = find_streamed_loops(*impl_->program, kernel.streamed_loops());
}
ReorderedKernel::~ReorderedKernel() = default;
ReorderedKernel::ReorderedKernel(ReorderedKernel&&) noexcept = default;
ReorderedKernel& ReorderedKernel::operator=(ReorderedKernel&&) noexcept = default;

void ReorderedKernel::run_to_end(const IterationOrder& order, const Arguments& arguments,
                                 std::vector<std::int64_t> program_ids, std::vector<std::int64_t> program_counts,
                                 Environment& environment) const {
  Worker::Impl worker(impl_->program, std::move(program_ids), std::move(program_counts), environment);
  worker.domain.reorder({&impl_->loops, &order});
  worker.set_arguments(arguments);
  const MachineState state = worker.machine.run<false>(worker.domain);
  check_internal(state == MachineState::finished, "a wait blocks where none may");
}

void run_to_end(std::shared_ptr<const Program> program, const Arguments& arguments,
                std::vector<std::int64_t> program_ids, std::vector<std::int64_t> program_counts,
                Environment& environment) {
  Worker worker(std::move(program), arguments, std::move(program_ids), std::move(program_counts), environment);
  Worker::State state = Worker::State::running;
  while (state == Worker::State::running) state = worker.step();
  check_internal(state == Worker::State::finished, "a wait blocks where none may");
}

}  // namespace syncopate
