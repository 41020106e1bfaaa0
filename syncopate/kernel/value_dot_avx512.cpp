// The product kernel for AVX512; this file alone is compiled for it (CMakeLists.txt), and called only where it runs.
#include "syncopate/kernel/value_dot_kernel.h"

#if defined(__x86_64__)
namespace syncopate::concrete {

void multiply_avx512(const Product& product) { multiply<8, 2, 16>(product); }

}  // namespace syncopate::concrete
#endif
