// The reference: the local kernel run over whole tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/host/describe.h"
#include "syncopate/host/host.h"

namespace syncopate::host {

/// A function of a kernel's text, ready to run. `file` is what messages call the text.
std::shared_ptr<const Program> load_program(const std::string& file, const std::string& text,
                                            const std::string& function);

/// run_unfused() with the kernel loaded.
std::vector<Bytes> run_unfused(const Plan& plan, const std::shared_ptr<const Program>& local,
                               const std::vector<Bytes>& inputs);

/// Says where the outputs of a rank first differ from the expected ones, bit by bit; nothing if they are equal.
std::optional<std::string> first_difference(const Plan& plan, int rank, std::int64_t launch,
                                            const std::vector<Bytes>& outputs, const std::vector<Bytes>& expected);

}  // namespace syncopate::host
