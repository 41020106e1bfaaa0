// The reference: the local kernel run over whole tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "syncopate/host/host.h"

namespace syncopate::host {

/// A function of a kernel's text, ready to run. `file` is what messages call the text.
std::shared_ptr<const Program> load_program(const std::string& file, const std::string& text,
                                            const std::string& function);

/// run_unfused() with the kernel loaded.
std::vector<Bytes> run_unfused(const Plan& plan, const std::shared_ptr<const Program>& local,
                               const std::vector<Bytes>& inputs);

}  // namespace syncopate::host
