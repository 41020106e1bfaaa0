// The command line. It holds no logic: it parses options, calls the floors and prints.
//
// Exit codes: 0 what was asked is true; 1 it is false (verify found a counter-example, run found a wrong result); 2 the
// user made a mistake; 3 Syncopate did.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <system_error>

#include "syncopate/cli/schedule_command.h"
#include "syncopate/core/files.h"
#include "syncopate/core/text.h"
#include "syncopate/cuda/doctor.h"
#include "syncopate/cuda/profile.h"
#include "syncopate/cuda/run.h"
#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/print.h"
#include "syncopate/verify/verify.h"

namespace {

using namespace syncopate;

/// Ctrl-C ends the program at once, whatever it is computing: nothing on disk is ever half done, because signals are
/// held back while files are written.
void end_on_signal(int) {
  constexpr std::string_view kMessage = "\nsyncopate: interrupted\n";
  [[maybe_unused]] const auto written = ::write(2, kMessage.data(), kMessage.size());
  ::_exit(130);
}

/// What ends the program: Ctrl-C, a request, a terminal that closes.
constexpr std::array<int, 3> kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

/// Holds them back during its life.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : kEndingSignals) sigaddset(&held, signal);
    sigprocmask(SIG_BLOCK, &held, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

void write_file(const std::string& path, const std::string& text) {
  const SignalsHeld held;
  FileTransaction files;
  files.write(path, text);
  files.commit();
}

struct Options {
  std::string path;
  std::vector<std::string> settings;
  std::string out;
  RunOptions run;
  std::string inputs = "integers";
  std::string on = "cpu";
  std::string issue = "steps";
  GpuRunOptions gpu;
  GpuProfileOptions profile;
  std::string json;
};

std::vector<Override> overrides_of(const Options& options) {
  std::vector<Override> overrides;
  for (const std::string& text : options.settings) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError({"--set " + text}, "not of the form key=value", "for example --set ranks=8");
    overrides.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return overrides;
}

/// Progress on a terminal only, on a line that erases itself.
class ProgressLine {
 public:
  ProgressLine() = default;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  /// What is being done, of which nobody knows how much there is.
  void say(const char* what) { write(fmt::format("{} ...", what)); }
  /// At most five times a second.
  void operator()(std::int64_t done, std::int64_t all, const char* what) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    write(fmt::format("{} of {} {}", done, all, what));
  }
  void clear() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
    shown_ = false;
  }

 private:
  void write(const std::string& text) {
    if (isatty(2) == 0) return;
    shown_ = true;
    fmt::print(stderr, "\r\x1b[K  {}", text);
    std::fflush(stderr);
  }

  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

const char* what_loading_is(const Options& options) {
  return options.path.ends_with(".json") ? "reading" : "compiling";
}

Plan load(const Options& options) {
  ProgressLine line;
  line.say(what_loading_is(options));
  return load_plan(options.path, overrides_of(options));
}

int compile(const Options& options) {
  if (options.path.ends_with(".json"))
    throw UserError({options.path}, "this is a plan, not an operator file", "name the operator's .toml file");
  if (options.out.empty()) throw UserError({"--out"}, "the name of the folder is empty", "for example --out out");
  const Plan plan = load(options);
  {
    const SignalsHeld held;
    write_plan(plan, options.out);
  }
  fmt::print("{}  {:<14}{}/plan.json, {}/fused.py\n", summary(plan), "written", options.out, options.out);
  return 0;
}

int verify(const Options& options) {
  ProgressLine line;
  line.say(what_loading_is(options));
  const auto [plan, warning] = load_unchecked_plan(options.path, overrides_of(options));
  line.say("verifying");
  const Proof proof = syncopate::verify(plan);
  line.clear();
  if (!warning.empty()) fmt::print("warning: {}; this is about the plan as it is\n", warning);
  fmt::print("{}", proof.to_string());
  return proof.holds() ? 0 : 1;
}

int show(const Options& options) {
  fmt::print("{}", syncopate::show(load(options)));
  return 0;
}

/// "2 launches on 4 ranks, 64 tiles, 24 transfers, 3.00 MiB between ranks".
void print_run(const Plan& plan, const RunOptions& run, const RunReport& report) {
  fmt::print("  {:<14}{} launch{} of {} on {} CPU rank{}, seed {}{}\n", "executed", run.repeat,
             run.repeat == 1 ? "" : "es", plan.kernel.fused_function, plan.ranks, plan.ranks == 1 ? "" : "s", run.seed,
             run.adversary ? ", adversary" : "");
  fmt::print("  {:<14}{}, {}, {} of the machine\n", "", count_of(report.tiles, "tile"),
             count_of(report.transfers, "transfer"), count_of(report.steps, "step"));
}

/// What it does to the result that streamed loops are walked in an order of the plan's.
void print_order(const OrderDifference& order) {
  if (order.where.empty())
    fmt::print("  {:<14}no bit depends on the order of streamed loops\n", "");
  else
    fmt::print(
        "  {:<14}the order of streamed loops makes a difference of at most {:.3g}, of {:.3g} allowed:\n"
        "  {:<14}{}\n",
        "", order.difference, order.allowed, "", order.where);
}

/// Compiled kernels are kept where the system keeps what can be made again.
std::string cache_folder() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const auto cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "syncopate";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "syncopate";
  return std::filesystem::temp_directory_path() / "syncopate";
}

int run_on_gpu(const Plan& plan, Options& options) {
  GpuRunOptions& gpu = options.gpu;
  if (options.run.adversary)
    throw UserError({"--adversary"}, "a GPU cannot be told to be late", "leave it out, or run on CPU ranks");
  gpu.seed = options.run.seed;
  gpu.repeat = options.run.repeat;
  gpu.inputs = options.run.inputs;
  gpu.issue = options.issue == "graph"      ? GpuIssue::graph
              : options.issue == "captured" ? GpuIssue::captured
                                            : GpuIssue::steps;
  if (gpu.compile.cache.empty()) gpu.compile.cache = cache_folder();
  GpuRunReport report;
  {
    ProgressLine line;
    gpu.progress = [&line](std::int64_t done, std::int64_t all) { line(done, all, "launches"); };
    report = syncopate::run_on_gpu(plan, gpu);
  }
  fmt::print("{}", summary(plan));
  fmt::print("  {:<14}{} of {} launch{} of {} on {}{}, seed {}\n", "executed", report.launches, gpu.repeat,
             gpu.repeat == 1 ? "" : "es", plan.kernel.fused_function, report.device,
             gpu.share ? fmt::format(" shared by {} ranks", plan.ranks) : fmt::format(" x {}", plan.ranks), gpu.seed);
  fmt::print("  {:<14}{} tiles, {} transfers; the host stops every {} launches to check\n", "", report.tiles,
             report.transfers, report.launches_at_a_stretch);
  if (report.outcome == GpuOutcome::right) {
    fmt::print(
        "result: {} the unfused operator on the same GPU\n",
        plan.kernel.streamed_loops.empty() ? "bitwise equal to" : "equal, but for the order of streamed loops, to");
    return 0;
  }
  fmt::print("result: {}\n{}\n", name_of(report.outcome), report.message);
  return 1;
}

int run(Options options) {
  const Plan plan = load(options);
  options.run.inputs = options.inputs == "reals" ? InputKind::reals : InputKind::small_integers;
  if (options.on == "gpu") return run_on_gpu(plan, options);
  RunReport report;
  {
    ProgressLine line;
    line.say("preparing the ranks");
    options.run.progress = [&line](std::int64_t done, std::int64_t all) { line(done, all, "tiles"); };
    report = run_on_cpu_ranks(plan, options.run);
  }
  fmt::print("{}", summary(plan));
  print_run(plan, options.run, report);
  if (report.outcome == Outcome::right) {
    if (report.order) print_order(*report.order);
    fmt::print("result: bitwise equal to the unfused operator\n");
    return 0;
  }
  fmt::print("result: {}\n{}\n", name_of(report.outcome), report.message);
  return 1;
}

int profile(Options options) {
  const Plan plan = load(options);
  GpuProfileOptions& asked = options.profile;
  asked.share = options.gpu.share;
  asked.time_limit = options.gpu.time_limit;
  asked.compile = options.gpu.compile;
  if (asked.compile.cache.empty()) asked.compile.cache = cache_folder();
  GpuProfile profile;
  {
    ProgressLine line;
    asked.progress = [&line](std::int64_t done, std::int64_t all) { line(done, all, "samples"); };
    profile = profile_on_gpu(plan, asked);
  }
  if (!profile.failure.empty()) {
    fmt::print("result: missed wait\n{}\n", profile.failure);
    return 1;
  }
  fmt::print("{}", to_text(plan, profile));
  if (!options.json.empty()) write_file(options.json, to_json(plan, profile));
  return 0;
}

/// Options of all that runs on GPUs.
void add_gpu_options(CLI::App& command, Options& options, const std::string& prefix) {
  command.add_flag("--share", options.gpu.share, prefix + "all ranks on one GPU, each on its share of the SMs");
  command.add_option("--time-limit", options.gpu.time_limit, prefix + "seconds that one wait may take (10)")
      ->check(CLI::Range(0.001, 3600.0))
      ->type_name("SECONDS");
  command.add_option("--python", options.gpu.compile.python, prefix + "a Python that has Triton (python3)")
      ->type_name("PATH");
  command.add_option("--cache", options.gpu.compile.cache, prefix + "folder of compiled kernels (~/.cache/syncopate)")
      ->type_name("DIR");
}

void add_operator_options(CLI::App& command, Options& options, bool plan_too) {
  command
      .add_option("file", options.path, plan_too ? "operator file (.toml) or plan (.json)" : "operator file (.toml)")
      ->required();
  command.add_option("--set", options.settings, "override a value of the operator file, e.g. --set ranks=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

/// The options that only a run on GPUs has a use for.
constexpr std::array<const char*, 6> kGpuOptions = {"--share",      "--issue",  "--delays",
                                                    "--time-limit", "--python", "--cache"};

void check_gpu_options(const CLI::App& run_command, const Options& options) {
  if (options.on == "gpu") return;
  for (const char* name : kGpuOptions)
    if (run_command.count(name) > 0)
      throw UserError({name}, "CPU ranks have no use for it", "leave it out, or add --on gpu");
}

/// "" if the text is a seed. CLI11 itself takes negative numbers and numbers beyond 64 bits for others.
std::string problem_of_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && rest == text.data() + text.size()) return {};
  return fmt::format("'{}' is not an integer from 0 to 2^64 - 1", text);
}

/// CLI11 would ask for a subcommand, and not say that it does not know the one it was given.
void check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands(nullptr)) known.push_back(command->get_name());
  if (std::find(known.begin(), known.end(), argv[1]) != known.end()) return;
  throw UserError({}, fmt::format("unknown subcommand '{}'", argv[1]), suggest(argv[1], known));
}

int dispatch(int argc, char** argv) {
  CLI::App app{"Syncopate: fuses a local tile kernel with the communication around it.", "syncopate"};
  app.require_subcommand(1);
  app.set_version_flag("--version", SYNCOPATE_VERSION);
  app.footer("Example:\n  syncopate run operators/ag_gemm.toml --set ranks=8");
  Options options;

  CLI::App* compile_command = app.add_subcommand("compile", "compile an operator: write plan.json and fused.py");
  add_operator_options(*compile_command, options, false);
  compile_command->add_option("--out", options.out, "folder for the two files; made if missing")
      ->required()
      ->type_name("DIR");
  compile_command->footer("Example:\n  syncopate compile operators/ag_gemm.toml --out out --set communicate.a.split=4");

  CLI::App* verify_command = app.add_subcommand("verify", "prove a plan right, or print the counter-example (exit 1)");
  add_operator_options(*verify_command, options, true);
  verify_command->footer("Example:\n  syncopate verify out/plan.json");

  CLI::App* run_command =
      app.add_subcommand("run", "execute on CPU ranks or GPUs and compare with the unfused operator");
  add_operator_options(*run_command, options, true);
  run_command->add_option("--seed", options.run.seed, "fixes inputs and interleaving")
      ->check(CLI::Validator(problem_of_seed, ""))
      ->type_name("N");
  run_command->add_flag("--adversary", options.run.adversary, "delay transfers and signals as long as legal");
  run_command->add_option("--repeat", options.run.repeat, "launches back to back, ranks not synchronised in between")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  run_command->add_option("--inputs", options.inputs, "integers (exact) or reals")
      ->check(CLI::IsMember({"integers", "reals"}))
      ->type_name("KIND");
  run_command->add_option("--on", options.on, "cpu (ranks of the machine in software) or gpu")
      ->check(CLI::IsMember({"cpu", "gpu"}))
      ->type_name("WHERE");
  add_gpu_options(*run_command, options, "on gpu: ");
  run_command
      ->add_option("--issue", options.issue,
                   "on gpu: steps (of all ranks in one order), graph (one for each rank) or "
                   "captured (into a graph of the caller's)")
      ->check(CLI::IsMember({"steps", "graph", "captured"}))
      ->type_name("HOW");
  run_command->add_option("--delays", options.gpu.longest_delay, "on gpu: hold streams up by chance, at most so long")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SECONDS");
  run_command->footer("Example:\n  syncopate run operators/ag_gemm.toml --seed 7 --adversary --repeat 3");

  CLI::App* profile_command =
      app.add_subcommand("profile", "on GPUs: time the operator, its kernel alone, its transfers alone, and a call");
  add_operator_options(*profile_command, options, true);
  add_gpu_options(*profile_command, options, "");
  profile_command->add_option("--samples", options.profile.samples, "of each time, taken in turn (11)")
      ->check(CLI::Range(1, 10000))
      ->type_name("N");
  profile_command->add_option("--launches", options.profile.launches, "of a sample, back to back (20)")
      ->check(CLI::Range(1, 200))
      ->type_name("N");
  profile_command->add_option("--json", options.json, "also write the times to a file")->type_name("FILE");
  profile_command->footer(
      "Example:\n  syncopate profile operators/ag_gemm.toml --share --set ranks=2 --set kernel.args.M=4096 \\\n"
      "    --set kernel.args.N=4096 --set kernel.args.K=4096 --set launch.workers=64");

  CLI::App* show_command = app.add_subcommand("show", "the plan in words: schedule, tile order, waits");
  add_operator_options(*show_command, options, true);
  show_command->footer("Example:\n  syncopate show operators/ag_gemm.toml --set communicate.a.algorithm=ring");

  const std::function<int()> schedule = add_schedule_command(app, write_file);

  CLI::App* doctor_command = app.add_subcommand("doctor", "what this machine has, and what of Syncopate works here");
  doctor_command->add_option("--python", options.gpu.compile.python, "a Python that may have Triton (python3)")
      ->type_name("PATH");
  doctor_command->footer("Example:\n  syncopate doctor");

  check_subcommand(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (doctor_command->parsed()) {
    fmt::print("{}", cuda::doctor({.python = options.gpu.compile.python}));
    return 0;
  }
  if (app.got_subcommand("schedule")) return schedule();
  if (compile_command->parsed()) return compile(options);
  if (verify_command->parsed()) return verify(options);
  if (run_command->parsed()) {
    check_gpu_options(*run_command, options);
    return run(options);
  }
  if (profile_command->parsed()) return profile(options);
  return show(options);
}

}  // namespace

int main(int argc, char** argv) {
  // Who had one of them ignored (nohup) wants it to stay so.
  for (const int signal : kEndingSignals)
    if (std::signal(signal, end_on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
  try {
    const int code = dispatch(argc, argv);
    if (std::fflush(stdout) != 0) {
      fmt::print(stderr, "syncopate: the output could not be written\n");
      return 2;
    }
    return code;
  } catch (const UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::system_error& error) {  // standard output is full or closed
    fmt::print(stderr, "syncopate: the output could not be written ({})\n", error.code().message());
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "syncopate: not enough memory for tensors or blocks of these sizes; use smaller ones\n");
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "syncopate: {}\nThis is a defect of Syncopate; please report it with the command.\n",
               error.what());
    return 3;
  }
}
