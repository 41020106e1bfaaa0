#include "syncopate/kernel/imports.h"

#include <algorithm>
#include <cctype>

namespace syncopate {
namespace {

/// The words of a statement, dots included, and its commas; without comments and parentheses.
std::vector<std::string> words_of(std::string_view statement) {
  const auto belongs = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; };
  std::vector<std::string> words;
  for (std::size_t at = 0; at < statement.size();) {
    if (statement[at] == '#') {
      at = std::min(statement.find('\n', at), statement.size());
    } else if (statement[at] == ',') {
      words.emplace_back(",");
      ++at;
    } else if (belongs(statement[at])) {
      const std::size_t begin = at;
      while (at < statement.size() && belongs(statement[at])) ++at;
      words.emplace_back(statement.substr(begin, at - begin));
    } else {
      ++at;
    }
  }
  return words;
}

}  // namespace

std::vector<ImportBinding> import_bindings(std::string_view statement) {
  const std::vector<std::string> words = words_of(statement);
  const bool from = words.size() > 3 && words[0] == "from" && words[2] == "import";
  std::vector<ImportBinding> bindings;
  if (!from && (words.empty() || words[0] != "import")) return bindings;
  for (std::size_t at = from ? 3 : 1; at < words.size();) {
    const std::string& item = words[at];
    const std::string path = from ? words[1] + "." + item : item;
    if (at + 2 < words.size() && words[at + 1] == "as") {
      bindings.push_back({words[at + 2], path});
      at += 3;
    } else if (from) {
      bindings.push_back({item, path});
      ++at;
    } else {
      const std::string outermost = item.substr(0, item.find('.'));
      bindings.push_back({outermost, outermost});
      ++at;
    }
    if (at < words.size() && words[at] == ",") ++at;
  }
  return bindings;
}

}  // namespace syncopate
