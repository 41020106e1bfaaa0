// Plan files whose hash is right and whose content is not: every value of a plan is changed, one at a time, and what
// comes of it is either refused with its place, or a plan that can be printed, verified and run without a crash. (What
// verification and the run say of such a plan is the matter of other tests.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "syncopate/core/json.h"
#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/operator.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/plan/print.h"
#include "syncopate/verify/verify.h"

namespace syncopate {
namespace {

/// What is put in the place of a value.
enum class Change : std::uint8_t {
  zero,
  minus_one,
  plus_one,
  minus_two,
  hundred,
  int_limit,
  past_int,
  long_limit,
  long_least,
  fraction,
  truth,
  word,
  no_text,
  none,
  no_list,
  no_object,
  in_a_list,
  cut_short,
  doubled,
  removed,
};
constexpr std::array kChanges = {Change::zero,       Change::minus_one, Change::plus_one, Change::minus_two,
                                 Change::hundred,    Change::int_limit, Change::past_int, Change::long_limit,
                                 Change::long_least, Change::fraction,  Change::truth,    Change::word,
                                 Change::no_text,    Change::none,      Change::no_list,  Change::no_object,
                                 Change::in_a_list,  Change::cut_short, Change::doubled,  Change::removed};

/// The changed value; nothing where the change removes it. Of some kinds of values there is nothing to change so: then
/// the value itself.
std::optional<Json> changed(const Json& value, Change change) {
  const bool number = value.kind() == Json::Kind::integer;
  const bool list = value.kind() == Json::Kind::array;
  switch (change) {
    case Change::zero:
      return Json(0);
    case Change::minus_one:
      return Json(-1);
    case Change::plus_one:
      return number ? Json(value.integer() + 1) : value;
    case Change::minus_two:
      return number ? Json(value.integer() - 2) : value;
    case Change::hundred:
      return Json(100);
    case Change::int_limit:
      return Json(std::int64_t{INT32_MAX});
    case Change::past_int:
      return Json(std::int64_t{1} << 32);
    case Change::long_limit:
      return Json(INT64_MAX);
    case Change::long_least:
      return Json(INT64_MIN);
    case Change::fraction:
      return Json(0.5);
    case Change::truth:
      return value.kind() == Json::Kind::boolean ? Json(!value.boolean()) : Json(true);
    case Change::word:
      return Json("word");
    case Change::no_text:
      return Json("");
    case Change::none:
      return Json();
    case Change::no_list:
      return Json::array();
    case Change::no_object:
      return Json::object();
    case Change::in_a_list:
      return Json::array({value});
    case Change::cut_short:
      return list && !value.items().empty() ? Json::array({value.items().begin(), value.items().end() - 1}) : value;
    case Change::doubled: {
      if (!list) return value;
      std::vector<Json> twice = value.items();
      twice.insert(twice.end(), value.items().begin(), value.items().end());
      return Json::array(std::move(twice));
    }
    case Change::removed:
      return std::nullopt;
  }
  return value;
}

/// Values are numbered in the order of a walk from the root, which is number 0.
Json rebuilt(const Json& value, std::size_t& number, std::size_t target, Change change) {
  std::vector<Json> items;
  std::vector<Json::Member> members;
  const auto follow = [&](const Json& child) -> std::optional<Json> {
    if (++number == target) return changed(child, change);
    return rebuilt(child, number, target, change);
  };
  switch (value.kind()) {
    case Json::Kind::array:
      for (const Json& item : value.items())
        if (auto next = follow(item)) items.push_back(std::move(*next));
      return Json::array(std::move(items));
    case Json::Kind::object:
      for (const auto& [name, member] : value.members())
        if (auto next = follow(member)) members.emplace_back(name, std::move(*next));
      return Json::object(std::move(members));
    default:
      return value;
  }
}

/// The paths of all values by number: "programs.*.slots.*.0"; positions in long lists are alike.
void collect_paths(const Json& value, const std::string& path, std::vector<std::string>& paths) {
  if (value.kind() == Json::Kind::array) {
    const std::vector<Json>& items = value.items();
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string below = path + (items.size() <= 3 ? "." + std::to_string(i) : ".*");
      paths.push_back(below);
      collect_paths(items[i], below, paths);
    }
  } else if (value.kind() == Json::Kind::object) {
    for (const auto& [name, member] : value.members()) {
      paths.push_back(path + "." + name);
      collect_paths(member, path + "." + name, paths);
    }
  }
}

/// A run of it ends within a second: what the local kernel is called with, and how often, is not made huge.
bool is_small(const Plan& plan) {
  std::int64_t programs = 1;
  for (const std::int64_t along : plan.kernel.grid) programs *= along;
  std::int64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) bytes += volume(buffer.shape);
  const auto are_small = [](const ScalarArguments& list) {
    return std::all_of(list.begin(), list.end(), [](const auto& each) {
      const auto* integer = std::get_if<std::int64_t>(&each.second);
      return integer == nullptr || (*integer >= -5000 && *integer <= 5000);
    });
  };
  const std::vector<ScalarArguments>& by_rank = plan.kernel.rank_arguments;
  const bool arguments = are_small(plan.kernel.arguments) && std::all_of(by_rank.begin(), by_rank.end(), are_small);
  return arguments && programs <= 1000 && bytes <= 1 << 20 && plan.ranks <= 8 && plan.workers <= 200;
}

struct Counts {
  int refused = 0;
  int false_plans = 0;
  int wrong_runs = 0;
  int unharmed = 0;
};

class Fuzz {
 public:
  explicit Fuzz(const std::string& name, const Plan& plan)
      : name_(name), root_(parse_json(SourceFile("plan.json", to_json(plan)))) {
    paths_.emplace_back();
    collect_paths(root_, "", paths_);
  }

  /// All changes of all values; or, if `few`, some changes of one value of each path.
  Counts run(bool few) {
    std::map<std::string, int> seen;
    for (std::size_t number = 1; number < paths_.size(); ++number) {
      const std::string& path = paths_[number];
      if (path == ".hash" || (++seen[path] > 1 && few)) continue;
      for (const Change change : kChanges) {
        if (few && (number + static_cast<std::size_t>(change)) % 11 != 0) continue;
        std::size_t at = 0;
        const Json json = rebuilt(root_, at, number, change);
        SCOPED_TRACE(name_ + ": " + path + " (value " + std::to_string(number) + "), change " +
                     std::to_string(static_cast<int>(change)));
        EXPECT_NO_THROW(try_plan(json.dump()));
        if (::testing::Test::HasFailure()) return counts_;
      }
    }
    return counts_;
  }

 private:
  void try_plan(const std::string& text) {
    std::optional<Plan> plan;
    try {
      plan = parse_plan(SourceFile("plan.json", text), false);
      // With the hash that such a plan has it is as good as any.
      plan = parse_plan(SourceFile("plan.json", to_json(*plan)));
    } catch (const UserError& error) {
      ++counts_.refused;
      EXPECT_EQ(error.where().file, "plan.json") << error.what();
      EXPECT_GT(error.where().line, 0) << error.what();
      return;
    }
    try {
      const std::string shown = show(*plan);
      EXPECT_FALSE(shown.empty());
      EXPECT_LT(shown.size(), 1 << 20);
    } catch (const UserError& error) {
      ADD_FAILURE() << error.what();
    }
    const bool holds = verify(*plan).holds();
    counts_.false_plans += holds ? 0 : 1;
    if (!is_small(*plan)) return;
    try {
      const bool right = run_on_cpu_ranks(*plan, {.seed = 3, .repeat = 2}).outcome == Outcome::right;
      counts_.wrong_runs += right ? 0 : 1;
      counts_.unharmed += right && holds ? 1 : 0;
    } catch (const UserError& error) {  // the kernel is not to be executed so
      EXPECT_FALSE(error.problem().empty());
      ++counts_.wrong_runs;
    }
  }

  std::string name_;
  Json root_;
  std::vector<std::string> paths_;
  Counts counts_;
};

/// A small plan of an operator file, whatever its arguments are called.
Plan small_plan(const std::string& path, const std::vector<Override>& more = {}) {
  const OperatorStatement statement = read_operator(path);
  const std::map<std::string, std::string> sizes = {
      {"M", "64"},    {"N", "64"},    {"K", "32"},     {"BLOCK_M", "16"}, {"BLOCK_N", "32"}, {"BLOCK_K", "16"},
      {"rows", "64"}, {"cols", "64"}, {"depth", "32"}, {"TILE_R", "16"},  {"TILE_C", "32"},  {"TILE_D", "16"}};
  std::vector<Override> overrides = {{"ranks", "2"}, {"launch.workers", "2"}};
  for (const auto& [name, value] : sizes)
    if (statement.arguments.contains(name)) overrides.push_back({"kernel.args." + name, value});
  if (statement.kernel_function == "rms_norm") overrides.push_back({"kernel.args.BLOCK_N", "64"});  // holds a row
  overrides.insert(overrides.end(), more.begin(), more.end());
  return compile_operator(path, overrides);
}

TEST(PlanOfHugeTensors, IsRefusedBeforeMemoryIsTaken) {
  Plan plan = small_plan(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_pointers.toml");
  plan.buffers.front().shape.front() = std::int64_t{1} << 43;
  try {
    run_on_cpu_ranks(plan, {});
    FAIL() << "it ran";
  } catch (const UserError& error) {
    EXPECT_EQ(error.problem().rfind(
                  "CPU ranks need at least 1024.00 TiB for the tensors of 2 ranks, and this machine has ", 0),
              0U)
        << error.what();
    EXPECT_EQ(error.remedy(), "use smaller sizes or fewer ranks");
  }
}

std::vector<std::string> operator_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(SYNCOPATE_SOURCE_DIR "/operators"))
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

class PlanFuzz : public ::testing::TestWithParam<std::string> {
 protected:
  void fuzz(bool few) {
    const Plan plan = small_plan(GetParam());
    const Counts counts = Fuzz(stem(GetParam()), plan).run(few);
    std::printf("  %s: %d refused; of the others %d false, %d runs wrong, %d right all the same\n",
                stem(GetParam()).c_str(), counts.refused, counts.false_plans, counts.wrong_runs, counts.unharmed);
    EXPECT_GT(counts.refused, 150);
    EXPECT_GE(counts.false_plans, 4);
    if (!is_small(plan)) return;
    EXPECT_GE(counts.wrong_runs, 4);
    EXPECT_GE(counts.unharmed, 4);
  }
};

TEST_P(PlanFuzz, ChangedValuesCrashNothing) { fuzz(true); }
TEST(OneShotFuzz, ChangedValuesCrashNothing) {
  const Plan plan =
      small_plan(SYNCOPATE_SOURCE_DIR "/operators/gemm_ar.toml", {{"communicate.c.algorithm", "one_shot"}});
  ASSERT_FALSE(plan.programs[0].additions.empty());
  const Counts counts = Fuzz("one_shot", plan).run(true);
  EXPECT_GT(counts.refused, 150);
  EXPECT_GE(counts.false_plans, 4);
  EXPECT_GE(counts.wrong_runs, 4);
  EXPECT_GE(counts.unharmed, 4);
}

// Minutes; run by hand with --gtest_also_run_disabled_tests.
TEST_P(PlanFuzz, DISABLED_EveryChangedValueCrashesNothing) { fuzz(false); }

INSTANTIATE_TEST_SUITE_P(Operators, PlanFuzz, ::testing::ValuesIn(operator_files()),
                         [](const auto& test) { return stem(test.param); });

}  // namespace
}  // namespace syncopate
