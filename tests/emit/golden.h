// The switch that rewrites golden files: emit_test --update-golden.
#pragma once

namespace syncopate {

extern bool update_golden;

}  // namespace syncopate
