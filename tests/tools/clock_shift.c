// Preloaded: the wall clock of a process is CLOCK_SHIFT seconds ahead.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec* time) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(clock, time);
  const char* shift = getenv("CLOCK_SHIFT");
  if (status == 0 && clock == CLOCK_REALTIME && shift != NULL) time->tv_sec += atol(shift);
  return status;
}
