// Which statements store to a tensor, and which load from one: found through names, helpers, loops and branches; and
// what cannot be told.
#include "syncopate/kernel/stores.h"

#include <gtest/gtest.h>

#include "syncopate/core/error.h"

namespace syncopate {
namespace {

std::shared_ptr<const Module> parse(const std::string& body, const std::string& before = "") {
  std::string text = "import triton\nimport triton.language as tl\n" + before + "@triton.jit\ndef kernel(c, d, n):\n";
  for (std::size_t begin = 0; begin < body.size();) {
    const std::size_t end = std::min(body.find('\n', begin), body.size());
    text += "    " + body.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return parse_module(std::make_shared<SourceFile>("kernel.py", text));
}

/// The texts of the stores to `c`, with a "*" before those through descriptors.
std::vector<std::string> stores(const std::string& body, const std::string& before = "") {
  const auto module = parse(body, before);
  std::vector<std::string> result;
  for (const Store& store : find_stores(module, *module->find("kernel"), "c"))
    result.push_back((store.descriptor ? "*" : "") + std::string(module->source->slice(store.range)));
  return result;
}

using Texts = std::vector<std::string>;

void expect_error(const std::string& body, int line, const std::string& problem, const std::string& remedy) {
  try {
    stores(body);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().line, line + 4) << error.what();
    EXPECT_EQ(error.problem(), problem);
    EXPECT_EQ(error.remedy(), remedy);
  }
}

TEST(Stores, ThroughPointers) {
  EXPECT_EQ(stores("at = c + tl.arange(0, 8) + n\n"
                   "other = d + tl.arange(0, 8)\n"
                   "tl.store(at, tl.load(other))\n"
                   "tl.store(other, tl.load(at))\n"
                   "tl.store(at[None, :] + tl.arange(0, 4)[:, None] * n, 1)\n"
                   "tl.store(pointer=tl.where(tl.arange(0, 8) > 2, at, at + 1), value=0)\n"),
            (Texts{"tl.store(at, tl.load(other))", "tl.store(at[None, :] + tl.arange(0, 4)[:, None] * n, 1)",
                   "tl.store(pointer=tl.where(tl.arange(0, 8) > 2, at, at + 1), value=0)"}));
}

TEST(Stores, ThroughDescriptors) {
  const std::string make = "= tl.make_tensor_descriptor(c, [n, n], [n, 1], [8, 8])\n";
  EXPECT_EQ(stores("x " + make + "y = tl.make_tensor_descriptor(d, [n, n], [n, 1], [8, 8])\n" +
                   "x.store([0, n], y.load([0, 0]).to(x.dtype))\n"
                   "y.store([0, 0], x.load([0, 0]))\n"
                   "tl.store_tensor_descriptor(x, [8, 0], tl.zeros((8, 8), c.dtype.element_ty))\n"),
            (Texts{"*x.store([0, n], y.load([0, 0]).to(x.dtype))",
                   "*tl.store_tensor_descriptor(x, [8, 0], tl.zeros((8, 8), c.dtype.element_ty))"}));
  const auto module = parse("x " + make + "x.store([0, 0], 1)\n");
  EXPECT_EQ(find_stores(module, *module->find("kernel"), "c").at(0).dimensions, 2);
  EXPECT_TRUE(find_stores(module, *module->find("kernel"), "d").empty());
}

TEST(Stores, NamesMayChangeTheirMeaning) {
  EXPECT_EQ(stores("at = d\n"
                   "tl.store(at, 1)\n"
                   "at = c\n"
                   "tl.store(at, 2)\n"
                   "for i in range(n):\n"
                   "    at += 1\n"
                   "    tl.store(at, 3)\n"
                   "at = d\n"
                   "tl.store(at, 4)\n"),
            (Texts{"tl.store(at, 2)", "tl.store(at, 3)"}));
}

TEST(Stores, InAHelper) {
  EXPECT_EQ(stores("put(d, 1)\nput(c, 2)\n", "@triton.jit\ndef put(at, value):\n    tl.store(at, value)\n"),
            (Texts{"tl.store(at, value)"}));
  EXPECT_EQ(stores("tl.store(shift(c), 2)\n", "@triton.jit\ndef shift(at):\n    return at + 1\n"),
            (Texts{"tl.store(shift(c), 2)"}));
}

TEST(Stores, WhatIsNeverReachedIsNoStore) {
  EXPECT_EQ(stores("return\ntl.store(c, 1)\n"), Texts{});
  EXPECT_EQ(stores("tl.store(d + n, tl.load(c))\n"), Texts{});
}

TEST(Stores, APlaceThatDependsOnTheWay) {
  const std::string problem = "this stores to 'c' or to something else, depending on the way here";
  const std::string remedy = "give what points to 'c' a name of its own";
  expect_error("at = c\nif n > 2:\n    at = d\ntl.store(at, 1)\n", 4, problem, remedy);
  expect_error("at = c\nfor i in range(n):\n    tl.store(at, 1)\n    at = d\n", 3, problem, remedy);
  expect_error("tl.store(tl.where(n > 2, c, d), 1)\n", 1, problem, remedy);
}

TEST(Stores, OtherWaysToWrite) {
  expect_error("tl.atomic_add(c + n, 1)\n", 1, "'c' is changed by tl.atomic_add", "store the tile's value once");
  expect_error("x = tl.make_tensor_descriptor(c + n, [n, n], [n, 1], [8, 8])\nx.store([0, 0], x.load([0, 0]))\n", 2,
               "this descriptor does not begin where 'c' points",
               "make a descriptor of the whole tensor, and put the rest into the offsets of the store");
}

std::vector<std::string> loads(const std::string& body, const std::string& before = "") {
  const auto module = parse(body, before);
  std::vector<std::string> result;
  for (const Load& load : find_loads(module, *module->find("kernel"), "c"))
    result.push_back((load.descriptor ? "*" : "") + std::string(module->source->slice(load.range)));
  return result;
}

TEST(Loads, ThroughPointersDescriptorsAndHelpers) {
  EXPECT_EQ(loads("at = c + tl.arange(0, 8) + n\n"
                  "tl.store(at, tl.load(d + tl.arange(0, 8)))\n"
                  "for i in range(n):\n"
                  "    tl.store(d + i, tl.load(at + tl.load(d + i), mask=i > 2, other=1) + tl.load(c))\n"
                  "    at += 8\n"
                  "desc = tl.make_tensor_descriptor(c, [64, 64], [64, 1], [16, 16])\n"
                  "tl.store(d, tl.sum(tl.sum(desc.load([0, 0]), 1), 0))\n"),
            (Texts{"tl.load(at + tl.load(d + i), mask=i > 2, other=1)", "tl.load(c)", "*desc.load([0, 0])"}));
  // A helper's load is one, however often it is called, and is none where it is called for others.
  EXPECT_EQ(loads("first(c, n)\nfirst(c + n, n)\nfirst(d, n)\n",
                  "@triton.jit\ndef first(p, n):\n    return tl.load(p + n)\n"),
            (Texts{"tl.load(p + n)"}));
  EXPECT_TRUE(loads("tl.store(c, tl.load(d))\n").empty());
}

TEST(Loads, WhatCannotBeTold) {
  const auto expect_refused = [](const std::string& body, int line, const std::string& problem) {
    try {
      loads(body);
      FAIL() << "no error";
    } catch (const UserError& error) {
      EXPECT_EQ(error.where().line, line + 4) << error.what();
      EXPECT_EQ(error.problem(), problem);
    }
  };
  expect_refused("if n > 2:\n    at = c\nelse:\n    at = d\ntl.store(d, tl.load(at))\n", 5,
                 "this loads from 'c' or from something else, depending on the way here");
  expect_refused("tl.atomic_add(c, 1)\n", 1, "'c' is changed by tl.atomic_add");
}

}  // namespace
}  // namespace syncopate
