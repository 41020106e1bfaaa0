#include "syncopate/plan/sums.h"

#include <cstring>

namespace syncopate {
namespace {

std::size_t bytes_of(std::int64_t elements, Dtype dtype) {
  return static_cast<std::size_t>(elements) * static_cast<std::size_t>(size_in_bytes(dtype));
}

float load(const std::byte* address, Dtype dtype) {
  if (dtype != Dtype::fp64) return load_element(address, dtype);
  double value = 0;
  std::memcpy(&value, address, sizeof value);
  return static_cast<float>(value);
}

void store(std::byte* address, Dtype dtype, float value) {
  if (dtype != Dtype::fp64) return store_element(address, dtype, value);
  const double wide = value;
  std::memcpy(address, &wide, sizeof wide);
}

/// The sum of one run of elements by `order`; `summands[rank]` is the first byte of the run there.
Bytes sum_of_run(const SumOrder& order, const std::vector<const std::byte*>& summands, std::int64_t count,
                 Dtype dtype) {
  const std::size_t bytes = bytes_of(count, dtype);
  if (order.terms.empty()) {
    const std::byte* leaf = summands[static_cast<std::size_t>(order.rank)];
    return {leaf, leaf + bytes};
  }
  const std::size_t step = bytes_of(1, dtype);
  std::vector<float> sums(static_cast<std::size_t>(count), 0.0F);
  for (const SumOrder& term : order.terms) {
    const Bytes values = sum_of_run(term, summands, count, dtype);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += load(values.data() + i * step, dtype);
  }
  Bytes result(bytes);
  for (std::size_t i = 0; i < sums.size(); ++i) store(result.data() + i * step, dtype, sums[i]);
  return result;
}

/// Puts the sum of what the kernels have left in buffer `summed` into a whole buffer of its rank.
void add_up(const Sum& sum, int summed, const Buffer& about, const std::vector<std::vector<Bytes>>& unfused,
            Bytes& whole) {
  for_each_run(sum.region, about.shape, [&](std::int64_t offset, std::int64_t count) {
    const std::size_t at = bytes_of(offset, about.dtype);
    std::vector<const std::byte*> summands;
    for (const std::vector<Bytes>& outputs : unfused)
      summands.push_back(outputs[static_cast<std::size_t>(summed)].data() + at);
    const Bytes added = sum_of_run(sum.order, summands, count, about.dtype);
    std::memcpy(whole.data() + at, added.data(), added.size());
  });
}

}  // namespace

Bytes sum_of_stack(const Buffer& about, const Bytes& stack) {
  check_internal(about.stacked, "a sum over what is no stack");
  const std::int64_t elements = volume(shape_without_stack(about));
  SumOrder order;
  std::vector<const std::byte*> summands;
  for (std::int64_t rank = 0; rank < about.shape[0]; ++rank) {
    order.terms.push_back({static_cast<int>(rank), {}});
    summands.push_back(stack.data() + bytes_of(rank * elements, about.dtype));
  }
  return sum_of_run(order, summands, elements, about.dtype);
}

std::vector<Bytes> local_inputs(const Plan& plan, std::vector<Bytes> inputs) {
  for (std::size_t buffer = 0; buffer < inputs.size(); ++buffer) {
    const Buffer& about = plan.buffers[buffer];
    if (about.stacked && about.role == BufferRole::kernel && !inputs[buffer].empty())
      inputs[buffer] = sum_of_stack(about, inputs[buffer]);
  }
  return inputs;
}

Bytes cut_out(const Bytes& whole, const Region& region, const Shape& shape, Dtype dtype) {
  Bytes part;
  part.reserve(bytes_of(region.volume(), dtype));
  for_each_run(region, shape, [&](std::int64_t offset, std::int64_t count) {
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(bytes_of(offset, dtype));
    part.insert(part.end(), first, first + static_cast<std::ptrdiff_t>(bytes_of(count, dtype)));
  });
  return part;
}

namespace {

/// What the results of one tensor are, of which the kernels have made the parts that their buffers show.
void exchange(const Plan& plan, int result, std::vector<std::vector<Bytes>>& outputs) {
  const Buffer& about = plan.buffer(result);
  const Buffer& kernel = plan.buffer(about.partner);
  const Shape shape = tensor_shape(about);
  Bytes tensor = poison(about.dtype, volume(shape));
  for (int rank = 0; rank < plan.ranks; ++rank) {
    Bytes& part = outputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(about.partner)];
    const Region window = shown_region(kernel, rank);
    copy_box(part, kernel.shape, in_buffer(kernel, rank, window), tensor, shape, window, about.dtype);
    part.clear();
  }
  for (int rank = 0; rank < plan.ranks; ++rank)
    outputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(result)] =
        cut_out(tensor, shown_region(about, rank), shape, about.dtype);
}

/// What each rank has of a sum, of which the kernels have left the summands in buffer `summed`.
void sum_up(const Plan& plan, int buffer, int summed, std::vector<std::vector<Bytes>>& outputs) {
  const Buffer& about = plan.buffer(buffer);
  std::vector<Bytes> whole(outputs.size(), poison(about.dtype, volume(about.shape)));
  for (const Sum& sum : plan.sums)
    if (sum.buffer == buffer) add_up(sum, summed, about, outputs, whole[static_cast<std::size_t>(sum.rank)]);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    outputs[r][static_cast<std::size_t>(summed)].clear();
    outputs[r][static_cast<std::size_t>(buffer)] =
        cut_out(whole[r], output_region(plan, buffer, rank), about.shape, about.dtype);
  }
}

}  // namespace

std::vector<std::vector<Bytes>> operator_outputs(const Plan& plan, std::vector<std::vector<Bytes>> unfused) {
  for (int buffer = 0; buffer < static_cast<int>(plan.buffers.size()); ++buffer) {
    if (buffer == added_up_buffer(plan))
      sum_up(plan, buffer, plan.buffer(buffer).partner, unfused);
    else if (plan.buffer(buffer).role == BufferRole::result)
      exchange(plan, buffer, unfused);
  }
  const int reduced = reduced_buffer(plan);
  if (reduced >= 0) sum_up(plan, reduced, reduced, unfused);
  return unfused;
}

}  // namespace syncopate
