#include <gtest/gtest.h>

#include <string_view>

#include "tests/emit/golden.h"

bool syncopate::update_golden = false;

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--update-golden") syncopate::update_golden = true;
  }
  return RUN_ALL_TESTS();
}
