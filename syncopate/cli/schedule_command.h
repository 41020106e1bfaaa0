// `syncopate schedule`: a ready schedule, described, drawn, and written as the file that operator files name.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace syncopate {

/// Adds the command. The function that comes back carries it out after parsing and returns the exit code; `write` puts
/// a text into a file.
std::function<int()> add_schedule_command(CLI::App& app,
                                          std::function<void(const std::string& path, const std::string& text)> write);

}  // namespace syncopate
