#include "syncopate/cuda/peer_handle.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>

#include "syncopate/core/error.h"
#include "syncopate/core/json.h"

namespace syncopate::cuda {
namespace {

constexpr std::int64_t kHandleVersion = 2;

template <std::size_t size>
std::string to_hex(const std::array<char, size>& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

template <std::size_t size>
std::array<char, size> from_hex(const SourceFile& file, const Json& json) {
  const std::string& text = expect_string(file, json, "a handle");
  std::array<char, size> bytes{};
  bool right = text.size() == 2 * size;
  for (std::size_t i = 0; right && i < size; ++i) {
    unsigned char byte = 0;
    const char* begin = text.data() + 2 * i;
    const auto [end, problem] = std::from_chars(begin, begin + 2, byte, 16);
    right = problem == std::errc{} && end == begin + 2;
    bytes[i] = static_cast<char>(byte);
  }
  if (!right) throw UserError(file.locate(json.offset()), fmt::format("not {} bytes in hexadecimal", size));
  return bytes;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string to_text(const PeerHandle& handle) {
  return Json::object({{"syncopate_handle", kHandleVersion},
                       {"plan", handle.plan_hash},
                       {"ranks", handle.ranks},
                       {"rank", handle.rank},
                       {"machine", handle.machine},
                       {"process", handle.process},
                       {"process_start", handle.process_start},
                       {"process_nonce", handle.process_nonce},
                       {"device", to_hex(handle.device.bytes)},
                       {"arena", static_cast<std::int64_t>(handle.arena)},
                       {"arena_bytes", handle.arena_bytes},
                       {"memory", to_hex(handle.memory.bytes)},
                       {"board", handle.board}})
      .dump();
}

PeerHandle parse_peer_handle(const std::string& text) {
  const SourceFile file("handle", text);
  const Json json = parse_json(file);
  JsonReader reader(file, json, "handle of a rank");
  if (const std::int64_t version = reader.integer("syncopate_handle"); version != kHandleVersion)
    throw UserError({"handle"}, fmt::format("it is of version {}, not {}", version, kHandleVersion),
                    "use the same version of Syncopate on all ranks");
  PeerHandle handle;
  handle.plan_hash = reader.string("plan");
  handle.ranks = static_cast<int>(reader.integer("ranks"));
  handle.rank = static_cast<int>(reader.integer("rank"));
  handle.machine = reader.string("machine");
  handle.process = reader.integer("process");
  handle.process_start = reader.integer("process_start");
  handle.process_nonce = reader.string("process_nonce");
  handle.device.bytes = from_hex<16>(file, reader.required("device"));
  handle.arena = static_cast<DevicePointer>(reader.integer("arena"));
  handle.arena_bytes = reader.integer("arena_bytes");
  handle.memory.bytes = from_hex<64>(file, reader.required("memory"));
  handle.board = reader.string("board");
  reader.finish();
  return handle;
}

void check_peers(const std::vector<PeerHandle>& handles, const PeerHandle& own, int ranks_on_device) {
  if (handles.size() != static_cast<std::size_t>(own.ranks))
    throw UserError({}, fmt::format("{} handles for a plan of {} ranks", handles.size(), own.ranks),
                    "start as many processes as the plan has ranks, or compile it for the number there is");
  std::map<std::string, std::vector<int>> on_device;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const PeerHandle& handle = handles[i];
    const int rank = static_cast<int>(i);
    // Compared with rank 0, not with this one, so that every rank finds the same fault first.
    const PeerHandle& first = handles.front();
    if (handle.rank != rank)
      throw UserError({}, fmt::format("handle {} is that of rank {}", rank, handle.rank),
                      "pass the handles of all ranks, in the order of ranks");
    if (handle.plan_hash != first.plan_hash || handle.arena_bytes != first.arena_bytes)
      throw UserError({}, fmt::format("ranks 0 and {} have different plans", rank),
                      "compile or load the same plan on all ranks");
    if (handle.machine != first.machine)
      throw UserError({}, fmt::format("ranks 0 and {} are on different machines", rank),
                      "all ranks of an operator run on one machine");
    on_device[to_hex(handle.device.bytes)].push_back(rank);
  }
  for (const auto& [device, ranks] : on_device)
    if (static_cast<int>(ranks.size()) > ranks_on_device)
      throw UserError({}, fmt::format("ranks {} and {} are on the same GPU", ranks[0], ranks[1]),
                      fmt::format("give every rank a GPU of its own, or say that {} ranks share one", ranks.size()));
  const PeerHandle& mine = handles[static_cast<std::size_t>(own.rank)];
  if (to_text(mine) != to_text(own))
    throw UserError({}, fmt::format("handle {} is not this operator's own", own.rank),
                    "exchange the handles of one operator at a time, each once");
}

std::string this_machine() { return first_line("/proc/sys/kernel/random/boot_id"); }

const std::string& process_nonce() {
  static const std::string nonce = [] {
    std::random_device random;
    return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  }();
  return nonce;
}

bool same_process(const PeerHandle& a, const PeerHandle& b) {
  return a.process == b.process && a.process_start == b.process_start && a.process_nonce == b.process_nonce;
}

std::int64_t process_start(std::int64_t process) {
  // "pid (name) state ppid ...": the name may hold anything, so what follows is counted from the last parenthesis. The
  // state is field 3, the start field 22.
  std::string line = first_line(fmt::format("/proc/{}/stat", process));
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(line.substr(name_end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X") return 0;
  return std::stoll(fields[19]);
}

}  // namespace syncopate::cuda
