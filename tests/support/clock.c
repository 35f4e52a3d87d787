/*
 * A library for LD_PRELOAD that shifts the time of day by the seconds in the file named by
 * CLOCK_OFFSET_FILE. The monotonic clock and all waits are unchanged. The file is read again after
 * at most 100 ms.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef int (*clock_fn)(clockid_t, struct timespec *);

static clock_fn real_clock(void) {
  static clock_fn function;
  if (!function) function = (clock_fn)dlsym(RTLD_NEXT, "clock_gettime");
  return function;
}

static long offset_s(void) {
  static long offset, read_ms = -1000;
  struct timespec now;
  real_clock()(CLOCK_MONOTONIC, &now);
  long now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
  if (now_ms - read_ms < 100) return offset;
  read_ms = now_ms;
  const char *path = getenv("CLOCK_OFFSET_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  char text[32] = {0};
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) > 0) offset = atol(text);
    close(file);
  }
  return offset;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  int failed = real_clock()(clock, at);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    at->tv_sec += offset_s();
  return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
