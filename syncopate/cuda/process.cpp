#include "syncopate/cuda/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "syncopate/core/error.h"

extern char** environ;  // NOLINT: POSIX

namespace syncopate::cuda {
namespace {

class SpawnSettings {
 public:
  SpawnSettings(const std::string& folder, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, 1);
    posix_spawn_file_actions_adddup2(&actions_, output, 2);
    posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);  // so that its own children can be killed with it
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  int spawn(pid_t& child, char* const* arguments) const {
    return posix_spawnp(&child, arguments[0], &actions_, &attributes_, arguments, environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// Reads until the other end closes or the limit passes; false in the second case.
bool read_all(int from, std::chrono::steady_clock::time_point deadline, std::string& text) {
  std::array<char, 4096> block{};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{from, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(std::min<long long>(left, 1'000'000))) <= 0) continue;
    const ssize_t count = read(from, block.data(), block.size());
    if (count == 0) return true;
    if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
  }
}

/// Waits for the child until the deadline: one may close its output and live on.
bool reap(pid_t child, std::chrono::steady_clock::time_point deadline, int& status) {
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    usleep(1000);
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& folder,
                          std::chrono::milliseconds limit) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw UserError({}, fmt::format("no pipe: {}", std::strerror(errno)));
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int error = SpawnSettings(folder, ends[1]).spawn(child, pointers.data());
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    throw UserError({arguments.front()}, fmt::format("cannot be started ({})", std::strerror(error)),
                    "name a program that exists");
  }
  ProcessResult result;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int status = 0;
  result.timed_out = !read_all(ends[0], deadline, result.output) || !reap(child, deadline, status);
  if (result.timed_out) {
    kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  }
  close(ends[0]);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace syncopate::cuda
