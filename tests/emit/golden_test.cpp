// The emitted form of each shipped kernel, whole. After a deliberate change: emit_test --update-golden, then read the
// diff.
#include "tests/emit/golden.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "syncopate/core/files.h"
#include "syncopate/emit/emit.h"
#include "syncopate/kernel/program.h"

namespace syncopate {
namespace {

const std::string kRoot = SYNCOPATE_SOURCE_DIR;

struct Case {
  std::string kernel;
  std::string reduced;            ///< the parameter of an output that is a sum over ranks, or ""
  std::vector<std::string> sent;  ///< those of outputs that leave as they are
  bool streams = false;
  bool in_place = false;  ///< of the sum
  std::vector<SummedInput> summed = {};
  std::vector<FoldedInput> folded = {};
  std::vector<std::string> kept = {};  ///< with these: outputs that stay
  bool dynamic = false;
  std::optional<AddedOutput> added = {};

  std::string name() const {
    return kernel + (summed.empty() ? "" : "_summed") + (reduced.empty() ? "" : "_sum") +
           (added          ? "_one_shot"
            : sent.empty() ? ""
                           : "_sent") +
           (streams ? "_streamed" : "") + (in_place ? "_in_place" : "") + (folded.empty() ? "" : "_folded") +
           (dynamic ? "_dynamic" : "");
  }
  std::string file() const { return kRoot + "/tests/emit/golden/" + name() + ".py"; }
};

class Golden : public testing::TestWithParam<Case> {
 protected:
  FusedSource emit() const {
    const std::string& name = GetParam().kernel;
    return emit_fused(TileKernel::read(kRoot + "/kernels/" + name + ".py", name), GetParam().reduced,
                      {GetParam().streams, GetParam().streams, GetParam().sent, GetParam().in_place, GetParam().summed,
                       GetParam().folded, GetParam().kept, GetParam().dynamic, GetParam().added});
  }
};

TEST_P(Golden, EmittedFileIsTheGoldenOne) {
  const std::string path = GetParam().file();
  const FusedSource fused = emit();
  if (update_golden) {
    FileTransaction files;
    files.write(path, fused.text);
    files.commit();
  }
  EXPECT_EQ(fused.function, GetParam().kernel + "_fused");
  EXPECT_EQ(fused.text, read_file(path)) << "run emit_test --update-golden if that is what you meant";
}

TEST_P(Golden, EmittingTwiceGivesTheSameBytes) { EXPECT_EQ(emit().text, emit().text); }

TEST_P(Golden, EmittedFileParsesAndLowers) {
  const FusedSource fused = emit();
  const auto module = parse_module(std::make_shared<const SourceFile>("fused.py", fused.text));
  const Function* function = module->find(fused.function);
  ASSERT_NE(function, nullptr);
  EXPECT_TRUE(function->jit);
  EXPECT_NE(lower(module, *function), nullptr);
}

TEST_P(Golden, LinesAreTidy) {
  const std::string text = emit().text;
  EXPECT_EQ(text.find(" \n"), std::string::npos) << "white space at a line's end";
  EXPECT_EQ(text.find("\n\n\n\n"), std::string::npos) << "three blank lines in a row";
  EXPECT_EQ(text.find("\t"), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 1), "\n");
  EXPECT_NE(text.substr(text.size() - 2), "\n\n");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 120U) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  return text.replace(text.find(from), from.size(), to);
}

TEST(Annotated, EmitsWhatTheKernelWithoutAnnotationsEmits) {
  const std::string plain = read_file(kRoot + "/kernels/gemm.py");
  const std::string first = "        group = tile // group_size\n";
  const std::string last = "        pid_n = (tile % group_size) // rows\n";
  std::string text = replaced(plain, first, "        # syncopate: tile_scheduler begin\n" + first);
  text = replaced(text, last,
                  last +
                      "        # syncopate: tile_scheduler end\n"
                      "        # syncopate: tile_index pid_m, pid_n\n"
                      "        # syncopate: tile_size pid_m=BLOCK_M, pid_n=BLOCK_N\n");
  text = replaced(text, "BLOCK_K)):\n", "BLOCK_K)):  # syncopate: streamed_loop k\n");
  const auto emit = [](const std::string& source) {
    return emit_fused(TileKernel(parse_module(std::make_shared<const SourceFile>("gemm.py", source)), "gemm")).text;
  };
  EXPECT_EQ(emit(text), emit(plain));
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Golden,
    testing::Values(Case{"gemm", "", {}}, Case{"gemm_pointers", "", {}}, Case{"gemm_split_helper", "", {}},
                    Case{"gemm", "c_ptr", {}}, Case{"gemm_pointers", "c_ptr", {}}, Case{"gemm_split_helper", "y", {}},
                    Case{"gemm", "", {"c_ptr"}}, Case{"gemm_pointers", "", {"c_ptr"}},
                    Case{"gemm_pointers", "", {}, true}, Case{"gemm_pointers", "c_ptr", {}, true},
                    Case{"gemm_pointers", "", {"c_ptr"}, true}, Case{"attention_streamed", "", {}, true},
                    Case{"gemm", "c_ptr", {}, false, true}, Case{"gemm_split_helper", "y", {}, false, true},
                    Case{"rms_norm", "", {}, false, false, {{"x_ptr", 4, 98304}}},
                    Case{"attention_streamed",
                         "",
                         {},
                         true,
                         false,
                         {},
                         {{"k_ptr", 1, 256, {256, 1}}, {"v_ptr", 1, 256, {256, 1}}},
                         {"o_ptr", "lse_ptr"}},
                    Case{"gemm", "", {}, false, false, {}, {}, {}, true},
                    Case{"gemm_pointers", "", {}, false, false, {}, {}, {}, true},
                    Case{"gemm_split_helper", "y", {}, false, false, {}, {}, {}, true},
                    Case{"gemm", "", {"c_ptr"}, false, false, {}, {}, {}, false, AddedOutput{"c_ptr", 4, 8}},
                    Case{"gemm_pointers", "", {"c_ptr"}, false, false, {}, {}, {}, false, AddedOutput{"c_ptr", 4, 8}}),
    [](const auto& instance) { return instance.param.name(); });

}  // namespace
}  // namespace syncopate
