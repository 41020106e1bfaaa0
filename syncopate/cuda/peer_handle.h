// What ranks of one operator in different processes tell each other before they can join: text, sent by whatever means
// their caller has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {

struct PeerHandle {
  std::string plan_hash;
  int ranks = 0;
  int rank = 0;
  std::string machine;             ///< of this start of it: processes on other machines cannot be reached
  std::int64_t process = 0;        ///< its number
  std::int64_t process_start = 0;  ///< when it began (as /proc says): numbers are used again
  std::string process_nonce;       ///< drawn by it: in containers of their own two may have the same number
  DeviceUuid device;
  DevicePointer arena = 0;  ///< as that process addresses it
  std::int64_t arena_bytes = 0;
  MemoryHandle memory;
  std::string board;  ///< name of the shared memory that the ranks tell failures through; only rank 0's counts
};

std::string to_text(const PeerHandle& handle);
/// Throws UserError for text that to_text() of this version has not written.
PeerHandle parse_peer_handle(const std::string& text);

/// Throws UserError unless `handles` are those of all ranks of one plan, handles[r] of rank r, on this machine, `own`
/// among them, and at most `ranks_on_device` of them on any one GPU. All ranks come to the same verdict.
void check_peers(const std::vector<PeerHandle>& handles, const PeerHandle& own, int ranks_on_device);

/// What identifies this start of this machine.
std::string this_machine();
/// What this process has drawn: no other has the same.
const std::string& process_nonce();
/// Whether two handles are of one process, whose addresses are the same for both.
bool same_process(const PeerHandle& a, const PeerHandle& b);
/// When a process began, in ticks since the machine did; 0 if it has ended (or waits for its parent to notice).
std::int64_t process_start(std::int64_t process);

}  // namespace syncopate::cuda
