// Schedules one after the other.
#pragma once

#include "syncopate/schedule/schedule.h"

namespace syncopate {

/// `first`, then `second`, as one schedule of the same tensors. There is no barrier between the two: an operator of the
/// second waits for the operators of the first that bring the parts it reads to where it reads them, and for those that
/// use the place it writes to, and only for those that nothing else it waits for implies. In every rank's list the
/// operators of the first come first. Ports of the second are moved up by `port_offset`: 0 to share the first's ports,
/// more to let both phases of one rank be in flight together.
/// Throws UserError unless both are over the same ranks and tensors and every tensor is in the second before what it is
/// in the first after. Whether the two together mean what they should is for check_meaning to say.
Schedule compose(const Schedule& first, const Schedule& second, int port_offset = 0);

}  // namespace syncopate
