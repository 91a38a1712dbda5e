/*
 * Preloaded into a gateway, sets its clock back by as many seconds as CLOCK_BACK_S says, and meets one
 * system call with a fault. The file that FAULT_AT names says
 * which: "CALL PATH NUMBER FAULT", as in "sync bursar.db-wal 1 EIO": the call's kind, what the path of
 * its file contains, how many such calls to wait for, and what happens then: kill (before the call),
 * kill-after, or an error of that name. It happens once: the file is removed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum fault { NONE, KILL_AFTER, FAIL };

static atomic_int seen;

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static enum fault meet(const char *call, const char *path) {
  char text[512], wanted[16], part[256], fault[32];
  int number;
  const char *name = getenv("FAULT_AT");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) {
    atomic_store(&seen, 0);
    return NONE;
  }
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return NONE;
  text[length] = 0;
  if (sscanf(text, "%15s %255s %d %31s", wanted, part, &number, fault) != 4) return NONE;
  if (strcmp(wanted, call) != 0 || strstr(path, part) == NULL) return NONE;
  if (atomic_fetch_add(&seen, 1) + 1 != number) return NONE;
  unlink(name);
  if (strcmp(fault, "kill") == 0) die();
  if (strcmp(fault, "kill-after") == 0) return KILL_AFTER;
  errno = strcmp(fault, "ENOSPC") == 0 ? ENOSPC : EIO;
  return FAIL;
}

static enum fault meet_file(const char *call, int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return NONE;
  path[length] = 0;
  return meet(call, path);
}

static long finish(enum fault fault, long result) {
  if (fault == KILL_AFTER) die();
  return result;
}

#define FAULTY(fault) \
  if (fault == FAIL) return -1

int fsync(int fd) {
  enum fault fault = meet_file("sync", fd);
  FAULTY(fault);
  return finish(fault, syscall(SYS_fsync, fd));
}

int fdatasync(int fd) {
  enum fault fault = meet_file("sync", fd);
  FAULTY(fault);
  return finish(fault, syscall(SYS_fdatasync, fd));
}

ssize_t write(int fd, const void *bytes, size_t count) {
  enum fault fault = meet_file("write", fd);
  FAULTY(fault);
  return finish(fault, syscall(SYS_write, fd, bytes, count));
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  enum fault fault = meet_file("write", fd);
  FAULTY(fault);
  return finish(fault, syscall(SYS_writev, fd, parts, count));
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
  enum fault fault = meet_file("write", fd);
  FAULTY(fault);
  return finish(fault, syscall(SYS_pwrite64, fd, bytes, count, offset));
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
  return pwrite64(fd, bytes, count, offset);
}

static time_t set_back(time_t seconds) {
  const char *back = getenv("CLOCK_BACK_S");
  return seconds - (back ? atoi(back) : 0);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, clock, now);
  if (!failed && clock == CLOCK_REALTIME) now->tv_sec = set_back(now->tv_sec);
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  int failed = syscall(SYS_gettimeofday, now, zone);
  if (!failed) now->tv_sec = set_back(now->tv_sec);
  return failed;
}

int rename(const char *from, const char *to) {
  enum fault fault = meet("rename", to);
  FAULTY(fault);
  return finish(fault, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
