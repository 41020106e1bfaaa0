// The product kernel for AVX2; this file alone is compiled for it (CMakeLists.txt), and called only where it runs.
#include "syncopate/kernel/value_dot_kernel.h"

#if defined(__x86_64__)
namespace syncopate::concrete {

void multiply_avx2(const Product& product) { multiply<4, 2, 8>(product); }

}  // namespace syncopate::concrete
#endif
