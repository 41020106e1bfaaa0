#include "small_plans.h"

#include "repository.h"
#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/compile.h"

namespace syncopate::cuda {
namespace {

Plan compiled(const std::string& file, const std::vector<Override>& overrides) {
  const OperatorStatement statement = read_operator(testing::operator_file(file), overrides);
  return compile_plan(statement, TileKernel::read(statement.kernel_file, statement.kernel_function));
}

}  // namespace

Plan small_gather(const std::string& algorithm, const std::string& initiator, int ranks,
                  const std::vector<Override>& more) {
  std::vector<Override> overrides = {{"ranks", std::to_string(ranks)},
                                     {"kernel.args.M", std::to_string(32 * ranks)},
                                     {"kernel.args.N", "32"},
                                     {"kernel.args.K", "16"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "3"},
                                     {"communicate.a.algorithm", algorithm},
                                     {"communicate.a.initiator", initiator}};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return compiled("ag_gemm_pointers.toml", overrides);
}

Plan small_reduce(const std::string& algorithm, const std::string& initiator, int ranks, int rows,
                  const std::vector<Override>& more) {
  std::vector<Override> overrides = {{"ranks", std::to_string(ranks)},
                                     {"kernel.args.M", std::to_string(rows > 0 ? rows : 32 * ranks)},
                                     {"kernel.args.N", "32"},
                                     {"kernel.args.K", "16"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "3"},
                                     {"communicate.c.algorithm", algorithm},
                                     {"communicate.c.initiator", initiator}};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return compiled("gemm_rs_pointers.toml", overrides);
}

}  // namespace syncopate::cuda
