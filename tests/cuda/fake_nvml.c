/* A management library of two GPUs, 'a...' with three NVLinks up and 'b...' with none, that NVLink joins from a to b. */
#include <string.h>

static const char* const kUuids[] = {"GPU-61616161-6161-6161-6161-616161616161", "GPU-62626262-6262-6262-6262-626262626262"};

int nvmlInit_v2(void) { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  strncpy(text, "580.1.2", length);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (int i = 0; i < 2; ++i) {
    if (strcmp(uuid, kUuids[i]) != 0) continue;
    *device = (void*)kUuids[i];
    return 0;
  }
  return 6; /* not found */
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  if (device != kUuids[0] || link > 3) return 2; /* no such link */
  *active = link < 3;
  return 0;
}
int nvmlDeviceGetP2PStatus(void* from, void* to, int capability, int* status) {
  *status = capability == 2 && from == kUuids[0] && to == kUuids[1] ? 0 : 5;
  return 0;
}
