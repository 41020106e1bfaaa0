#include "syncopate/cli/schedule_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>

#include "syncopate/core/dtype.h"
#include "syncopate/core/region.h"
#include "syncopate/core/text.h"
#include "syncopate/plan/limits.h"
#include "syncopate/schedule/draw.h"
#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/schedule_json.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {

namespace {

/// A picture of more ranks than this fits no screen.
constexpr int kMostRanksDrawn = 16;

struct ScheduleOptions {
  std::string name;
  int ranks = 4;
  std::string algorithm = "direct";
  std::string initiator = "push";
  std::string tensor = "a";
  std::string shape = "1024x1024";
  std::string dtype = "bf16";
  int dimension = 0;
  bool zigzag = false;
  int to_dimension = 1;
  int root = 0;
  int steps = 1;
  std::string shares;
  TemplateOptions made;
  std::string out;
};

/// Options that only some of the collectives have a use for.
const std::map<std::string, std::vector<std::string>> kOnlyFor = {
    {"--dim", {"all_gather", "reduce_scatter", "all_reduce", "all_to_all", "shift"}},
    {"--zigzag", {"all_gather"}},
    {"--to-dim", {"all_to_all"}},
    {"--root", {"broadcast"}},
    {"--steps", {"shift"}},
    {"--chunk-major", {"reduce_scatter", "all_reduce"}}};

const std::vector<std::string> kNames = {"all_gather", "reduce_scatter", "all_reduce",
                                         "all_to_all", "broadcast",      "shift"};

UserError mistake(const std::string& option, const std::string& problem, const std::string& remedy) {
  return UserError({option}, problem, remedy);
}

Shape shape_of(const std::string& text) {
  Shape shape;
  std::int64_t elements = 1;
  std::string_view rest = text;
  for (;;) {
    const std::string_view digits = rest.substr(0, rest.find('x'));
    std::int64_t extent = 0;
    const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), extent);
    if (digits.empty() || code != std::errc() || stop != digits.data() + digits.size() || extent < 1)
      throw mistake("--shape", fmt::format("'{}' is not a shape", text), "sizes of at least 1, such as 1024x512");
    if (extent > kMostElements / elements)
      throw mistake("--shape", fmt::format("{} makes a tensor of more than 2^48 elements", text), "make it smaller");
    elements *= extent;
    shape.push_back(extent);
    if (shape.size() > kMaxDimensions)
      throw mistake("--shape", fmt::format("'{}' has more than {} dimensions", text, kMaxDimensions),
                    fmt::format("from 1 to {}", kMaxDimensions));
    if (digits.size() == rest.size()) return shape;
    rest.remove_prefix(digits.size() + 1);
  }
}

/// The tensor with the placements between which the collective of that name moves it.
LogicalTensor tensor_of(const ScheduleOptions& options) {
  if (options.tensor.empty()) throw mistake("--tensor", "the tensor has an empty name", "a name that is not empty");
  LogicalTensor tensor{options.tensor, shape_of(options.shape), Dtype::bf16, {}, {}};
  const std::optional<Dtype> dtype = dtype_from_name(options.dtype);
  if (!dtype)
    throw mistake("--dtype", fmt::format("unknown dtype '{}'", options.dtype),
                  fmt::format("known: {}", all_dtype_names()));
  tensor.dtype = *dtype;
  const auto dimensions = static_cast<int>(tensor.shape.size());
  const auto shard = [&](const std::string& option, int dimension) {
    if (dimension < 0 || dimension >= dimensions)
      throw mistake(option, fmt::format("dimension {} of a tensor of {} dimensions", dimension, dimensions),
                    fmt::format("dimensions count from 0 to {}", dimensions - 1));
    return Placement::shard(dimension);
  };
  const Placement sharded = shard("--dim", options.dimension);
  if (options.name == "all_gather") tensor.before = options.zigzag ? Placement::zigzag(options.dimension) : sharded;
  if (options.name == "all_to_all") {
    tensor.before = sharded;
    tensor.after = shard("--to-dim", options.to_dimension);
    if (tensor.after == tensor.before)
      throw mistake("--to-dim",
                    fmt::format("{} -> {} moves nothing", tensor.before.to_string(), tensor.after.to_string()),
                    "another dimension than --dim");
  }
  if (options.name == "shift") {
    tensor.before = sharded;
    tensor.after = Placement::shard(options.dimension, options.steps);
  }
  if (options.name == "reduce_scatter") tensor.after = sharded;
  if (options.name == "reduce_scatter" || options.name == "all_reduce") tensor.before = Placement::partial_sum();
  if (options.name == "broadcast") {
    if (options.root < 0 || options.root >= options.ranks)
      throw mistake("--root", fmt::format("rank {} of {}", options.root, options.ranks),
                    fmt::format("ranks count from 0 to {}", options.ranks - 1));
    tensor.before = Placement::only(options.root);
  }
  return tensor;
}

TemplateOptions template_options(const ScheduleOptions& options) {
  TemplateOptions made = options.made;
  const std::optional<Algorithm> algorithm = algorithm_from_name(options.algorithm);
  if (!algorithm) {
    throw mistake("--algorithm", fmt::format("unknown algorithm '{}'", options.algorithm),
                  suggest(options.algorithm, algorithm_names()));
  }
  made.algorithm = *algorithm;
  made.initiator = options.initiator == "pull" ? Initiator::pull : Initiator::push;
  if (!options.shares.empty()) {
    const auto shares = parse_shares(options.shares);
    if (!shares) throw mistake("--shares", fmt::format("'{}' is not two shares", options.shares), "for example 3:1");
    made.shares = *shares;
  }
  if (options.name == "all_reduce") made.dimension = options.dimension;
  return made;
}

int run(const CLI::App& command, const ScheduleOptions& asked,
        const std::function<void(const std::string&, const std::string&)>& write) {
  ScheduleOptions options = asked;
  std::replace(options.name.begin(), options.name.end(), '-', '_');
  if (std::find(kNames.begin(), kNames.end(), options.name) == kNames.end())
    throw mistake("schedule", fmt::format("unknown collective '{}'", asked.name), suggest(options.name, kNames));
  for (const auto& [option, names] : kOnlyFor)
    if (command.count(option) > 0 && std::find(names.begin(), names.end(), options.name) == names.end())
      throw mistake(option, fmt::format("{} has no use for it", options.name), "leave it out");
  if (command.count("--out") > 0 && options.out.empty())
    throw mistake("--out", "the name of the file is empty", "for example --out my_gather.json");
  const LogicalTensor tensor = tensor_of(options);
  const TemplateOptions made = template_options(options);
  const Schedule schedule = make_collective(tensor, options.ranks, made, {"syncopate schedule"});
  check_meaning(schedule);
  fmt::print("{} of {} ({} {}), {} -> {}, on {} rank{}: {}\n", options.name, tensor.name, to_string(tensor.shape),
             name_of(tensor.dtype), tensor.before.to_string(), tensor.after.to_string(), options.ranks,
             options.ranks == 1 ? "" : "s", describe(made));
  fmt::print("{}  {:<14}proven: {} after it, in every order that its dependencies allow\n", describe_load(schedule),
             "meaning", tensor.after.to_string());
  if (options.ranks <= kMostRanksDrawn)
    fmt::print("{}", draw(schedule));
  else
    fmt::print("  {:<14}up to {} ranks only\n", "drawn", kMostRanksDrawn);
  if (!options.out.empty()) {
    write(options.out, to_json(schedule));
    fmt::print("written {}\n", options.out);
  }
  return 0;
}

}  // namespace

std::function<int()> add_schedule_command(CLI::App& app,
                                          std::function<void(const std::string& path, const std::string& text)> write) {
  CLI::App* command = app.add_subcommand("schedule", "a ready schedule of a collective: describe, draw and write it");
  const auto options = std::make_shared<ScheduleOptions>();
  command->add_option("name", options->name, "all_gather, reduce_scatter, all_reduce, all_to_all, broadcast or shift")
      ->required();
  command->add_option("--ranks", options->ranks, "how many (4)")
      ->check(CLI::Range(1, static_cast<int>(kMostRanks)))
      ->type_name("N");
  command
      ->add_option("--algorithm", options->algorithm,
                   "direct, ring, bidirectional_ring, double_ring, recursive, hierarchical, interleaved or one_shot "
                   "(direct)")
      ->type_name("NAME");
  command->add_option("--initiator", options->initiator, "push or pull (push)")
      ->check(CLI::IsMember({"push", "pull"}))
      ->type_name("WHO");
  command->add_option("--split", options->made.split, "chunks of every shard or box (1)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  command->add_option("--tensor", options->tensor, "its name (a)")->type_name("NAME");
  command->add_option("--shape", options->shape, "its shape (1024x1024)")->type_name("SHAPE");
  command->add_option("--dtype", options->dtype, "of its elements (bf16)")->type_name("DTYPE");
  command->add_option("--dim", options->dimension, "the dimension that is sharded, before or after (0)")
      ->type_name("D");
  command->add_flag("--zigzag", options->zigzag,
                    "of all_gather: rank r holds stretches r and 2 * ranks - 1 - r of 2 * ranks");
  command->add_option("--to-dim", options->to_dimension, "of all_to_all: sharded after it (1)")->type_name("D");
  command->add_option("--root", options->root, "of broadcast: the rank that has the tensor (0)")->type_name("RANK");
  command->add_option("--steps", options->steps, "of shift: ranks that each shard moves up by (1)")
      ->check(CLI::Range(-kMostRanks, kMostRanks))
      ->type_name("K");
  command
      ->add_option("--ranks-per-node", options->made.ranks_per_node,
                   "of hierarchical and double_ring: rank = node * N + place in the node")
      ->type_name("N");
  command->add_option("--shares", options->shares, "of interleaved: chunks by port 0 and by port 1 (1:1)")
      ->type_name("A:B");
  command->add_flag("--chunk-major", options->made.chunk_major,
                    "of direct sums: chunk 0 of every shard first, then chunk 1");
  command->add_option("--out", options->out, "write it as a schedule file")->type_name("FILE");
  command->footer("Example:\n  syncopate schedule all_gather --ranks 8 --algorithm hierarchical --ranks-per-node 4");
  return [command, options, write = std::move(write)] { return run(*command, *options, write); };
}

}  // namespace syncopate
