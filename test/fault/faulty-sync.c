/*
 * Preloaded into a gateway, lets fsync and fdatasync fail with EIO on files whose path contains the
 * text in the file that FAULT_FILE names; without that file they work. A real disk does no better
 * job of failing on demand.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_faulty(int fd) {
  char wanted[256], link[64], path[4096];
  const char *name = getenv("FAULT_FILE");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  ssize_t length = read(file, wanted, sizeof wanted - 1);
  close(file);
  if (length <= 0) return 0;
  wanted[length] = 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return strstr(path, wanted) != NULL;
}

static int sync_or_fail(const char *name, int fd) {
  if (is_faulty(fd)) {
    errno = EIO;
    return -1;
  }
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  return real(fd);
}

int fsync(int fd) { return sync_or_fail("fsync", fd); }

int fdatasync(int fd) { return sync_or_fail("fdatasync", fd); }
