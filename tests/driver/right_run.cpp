#include "tests/driver/right_run.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "syncopate/core/dtype.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"

namespace syncopate::testing {

std::string operator_file(const std::string& name) {
  return (std::filesystem::path(SYNCOPATE_SOURCE_DIR) / "operators" / (name + ".toml")).string();
}

int buffer_named(const Plan& plan, const std::string& name) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].name == name) return static_cast<int>(i);
  throw std::runtime_error("no buffer " + name);
}

std::vector<double> numbers(const Plan& plan, const std::vector<Bytes>& of_rank, const std::string& name) {
  const int buffer = buffer_named(plan, name);
  const Bytes& bytes = of_rank[static_cast<std::size_t>(buffer)];
  const Dtype dtype = plan.buffer(buffer).dtype;
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  std::vector<double> list;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::int32_t integer = 0;
    if (!is_floating(dtype)) std::memcpy(&integer, bytes.data() + at, sizeof integer);
    list.push_back(is_floating(dtype) ? static_cast<double>(load_element(bytes.data() + at, dtype)) : integer);
  }
  return list;
}

std::vector<double> numbers(const Plan& plan, const std::vector<std::vector<Bytes>>& of, int rank,
                            const std::string& name) {
  return numbers(plan, of[static_cast<std::size_t>(rank)], name);
}

LaunchData run_of(const Plan& plan, InputKind inputs, std::uint64_t seed) {
  const Proof proof = verify(plan);
  EXPECT_TRUE(proof.holds()) << proof.to_string();
  RunOptions options;
  options.inputs = inputs;
  options.seed = seed;
  options.adversary = seed % 2 == 1;
  options.repeat = 2;
  const RunReport report = run_on_cpu_ranks(parse_plan(SourceFile("plan.json", to_json(plan))), options);
  EXPECT_EQ(report.outcome, Outcome::right) << "seed " << seed << ": " << report.message;
  return report.last;
}

}  // namespace syncopate::testing
