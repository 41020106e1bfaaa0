#include "syncopate/core/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "syncopate/core/error.h"

namespace syncopate {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t entries() const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) count += entry.is_regular_file() ? 1U : 0U;
    return count;
  }
  fs::path folder_ = fs::path(::testing::TempDir()) / ("files_test." + std::to_string(::getpid()));
};

TEST_F(Files, CommittedTogetherOrNotAtAll) {
  {
    FileTransaction transaction;
    transaction.write(path("new/a.txt"), "one");
    transaction.write(path("b.txt"), "two");
    EXPECT_FALSE(fs::exists(path("new/a.txt")));
  }
  EXPECT_EQ(entries(), 0U) << "an abandoned transaction leaves nothing";
  FileTransaction transaction;
  transaction.write(path("new/a.txt"), "one");
  transaction.write(path("b.txt"), "two");
  transaction.commit();
  EXPECT_EQ(read_file(path("new/a.txt")), "one");
  EXPECT_EQ(entries(), 2U);
}

TEST_F(Files, ReadErrorsNameTheFile) {
  EXPECT_THROW(read_file(path("none")), UserError);
  try {
    read_file(folder_.string());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().file, folder_.string());
    EXPECT_EQ(error.problem(), "is a folder");
  }
}

TEST_F(Files, WriteErrorLosesNothing) {
  std::ofstream(path("file")) << "old";
  FileTransaction transaction;
  EXPECT_THROW(transaction.write(path("file/child"), "x"), UserError);
  EXPECT_EQ(read_file(path("file")), "old");
}

TEST_F(Files, ThreadsThatWriteTheSameFileLeaveOneOfTheirTextsWhole) {
  std::vector<std::thread> writers;
  for (char letter = 'a'; letter < 'i'; ++letter)
    writers.emplace_back([this, letter] {
      for (int round = 0; round < 50; ++round) {
        FileTransaction transaction;
        ASSERT_NO_THROW(transaction.write(path("shared"),
                                          std::string(static_cast<std::size_t>(1000 * (letter - 'a') + 1000), letter)));
        ASSERT_NO_THROW(transaction.commit());
        const std::string text = read_file(path("shared"));
        ASSERT_EQ(text, std::string(static_cast<std::size_t>(1000 * (text[0] - 'a') + 1000), text[0]));
      }
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(entries(), 1U) << "nothing temporary is left";
}

TEST_F(Files, TwoTransactionsOfOneProcessDoNotShareATemporaryFile) {
  FileTransaction first;
  first.write(path("shared"), "first");
  {
    FileTransaction second;
    second.write(path("shared"), "second");
    EXPECT_EQ(entries(), 2U);
  }
  first.commit();
  EXPECT_EQ(read_file(path("shared")), "first");
}

TEST_F(Files, WhatIsNoFile) {
  const auto error_of = [](const std::string& name) -> std::string {
    try {
      read_file(name);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of("/dev/zero"), "/dev/zero: is no file but a device or a socket; name a file");
  EXPECT_EQ(error_of(path("")), path("") + ": is a folder; name a file in it");
  const std::string zero = std::string("a") + '\0' + "b";
  EXPECT_EQ(error_of(zero), "a: a zero byte follows in the name of this file; remove it");
  FileTransaction transaction;
  EXPECT_THROW(transaction.write(path("") + zero, "text"), UserError);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Files, LongFilesAreReadWhole) {
  std::string text(3 * (std::size_t{1} << 20) + 17, 'x');
  for (std::size_t i = 0; i < text.size(); i += 1000) text[i] = static_cast<char>('a' + i % 23);
  FileTransaction transaction;
  transaction.write(path("long"), text);
  transaction.write(path("empty"), "");
  transaction.write(path("step"), std::string(std::size_t{1} << 20, 'y'));
  transaction.commit();
  EXPECT_TRUE(read_file(path("long")) == text);
  EXPECT_EQ(read_file(path("empty")), "");
  EXPECT_EQ(read_file(path("step")).size(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace syncopate
