#include "syncopate/emit/references.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace syncopate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<const Module> parse(std::string text) {
  return parse_module(std::make_shared<const SourceFile>("k.py", std::move(text)));
}

std::vector<std::string> statements(const std::vector<ImportedName>& imports) {
  std::vector<std::string> result;
  for (const ImportedName& import : imports) result.push_back(import.name + ": " + import.statement);
  return result;
}

TEST(ImportedNames, OneStatementPerName) {
  const auto module = parse(
      "import triton, torch\n"
      "import triton.language as tl\n"
      "import numpy.linalg\n"
      "from math import (pi as PI,  # the circle's\n"
      "                  e)\n"
      "from triton.language.extra import *\n"
      "from . import near\n");
  EXPECT_THAT(statements(imported_names(*module)),
              ElementsAre("triton: import triton", "torch: import torch", "tl: import triton.language as tl",
                          "numpy: import numpy.linalg", "PI: from math import pi as PI", "e: from math import e",
                          "*: from triton.language.extra import *", "near: from . import near"));
}

constexpr const char* kFile =
    "import math\n"
    "import torch\n"
    "import triton\n"
    "import triton.language as tl\n"
    "from triton.language.extra import libdevice\n"
    "SCALE = tl.constexpr(math.pi)\n"
    "DOUBLE = tl.constexpr(SCALE * 2)\n"
    "HOST = torch.float16\n"
    "\n"
    "@triton.jit\n"
    "def inner(x):\n"
    "    return x * DOUBLE\n"
    "\n"
    "@triton.jit\n"
    "def unused(x):\n"
    "    return libdevice.tanh(x)\n"
    "\n"
    "@triton.jit\n"
    "def outer(x):\n"
    "    return inner(x)\n"
    "\n"
    "@triton.jit\n"
    "def kernel(p, q: tl.constexpr):\n"
    "    tl.store(p, outer(tl.load(p)))\n"
    "\n"
    "def launch(p):\n"
    "    kernel[(1,)](p, HOST)\n";

TEST(FindNeeded, FollowsHelpersAndConstants) {
  const auto module = parse(kFile);
  const Needed needed = find_needed(*module, *module->find("kernel"), {"outer", "tl"});
  EXPECT_THAT(needed.imports, ElementsAre("import math", "import triton.language as tl"));
  ASSERT_EQ(needed.constants.size(), 2U);
  EXPECT_EQ(module->source->slice(needed.constants[0]->range), "SCALE = tl.constexpr(math.pi)");
  EXPECT_EQ(module->source->slice(needed.constants[1]->range), "DOUBLE = tl.constexpr(SCALE * 2)");
  ASSERT_EQ(needed.helpers.size(), 2U);
  EXPECT_EQ(needed.helpers[0]->name, "inner");
  EXPECT_EQ(needed.helpers[1]->name, "outer");
}

TEST(FindNeeded, NothingIsNeededByNothing) {
  const auto module = parse(kFile);
  const Needed needed = find_needed(*module, *module->find("kernel"), {});
  EXPECT_THAT(needed.imports, IsEmpty());
  EXPECT_THAT(needed.constants, IsEmpty());
  EXPECT_THAT(needed.helpers, IsEmpty());
}

TEST(FindNeeded, NamesOfOtherModulesAreRefused) {
  const auto module = parse(kFile);
  try {
    static_cast<void>(find_needed(*module, *module->find("kernel"), {"HOST"}));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.where(), (SourceLocation{"k.py", 2, 1}));
    EXPECT_EQ(error.problem(),
              "the kernel uses 'torch' of module 'torch', but a fused kernel's file can need only Triton");
    EXPECT_EQ(error.remedy(), "define it in the kernel's own file");
  }
}

}  // namespace
}  // namespace syncopate
