/*
 * Preloaded into a gateway, sets its clock back by as many seconds as CLOCK_BACK_S says, and meets
 * system calls with faults. The file that FAULT_AT names says which: "CALL PATH NUMBER FAULT", as
 * in "sync bursar.db-wal 1 EIO": the call's kind (sync, write, rename, link, make, truncate, "any"
 * of these but sync, or read, of the first thread only), what the path of its file contains, how
 * many such calls to wait for, and what happens then: kill (before the call), kill-after, or an
 * error of that name. It happens once: the file is removed. With a plus, as in "any /data/ 1+
 * EROFS", it happens from that call on until somebody removes the file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static int error_of(const char *name) {
  if (strcmp(name, "ENOSPC") == 0) return ENOSPC;
  if (strcmp(name, "EDQUOT") == 0) return EDQUOT;
  if (strcmp(name, "EROFS") == 0) return EROFS;
  return EIO;
}

static enum fault meet(const char *call, const char *path) {
  char text[512], wanted[16], part[256], which[16], fault[32], *lasts;
  const char *name = getenv("FAULT_AT");
  int file = name ? syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) {
    atomic_store(&seen, 0);
    return NONE;
  }
  ssize_t length = syscall(SYS_read, file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return NONE;
  text[length] = 0;
  if (sscanf(text, "%15s %255s %15s %31s", wanted, part, which, fault) != 4) return NONE;
  int is_any = strcmp(wanted, "any") == 0 && strcmp(call, "sync") != 0 && strcmp(call, "read") != 0;
  if (!is_any && strcmp(wanted, call) != 0) return NONE;
  if (strstr(path, part) == NULL) return NONE;
  int now = atomic_fetch_add(&seen, 1) + 1, number = strtol(which, &lasts, 10);
  if (*lasts == '+' ? now < number : now != number) return NONE;
  if (*lasts != '+') syscall(SYS_unlinkat, AT_FDCWD, name, 0);
  if (strcmp(fault, "kill") == 0) die();
  if (strcmp(fault, "kill-after") == 0) return KILL_AFTER;
  errno = error_of(fault);
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

static enum fault meet_read(int fd) {
  return syscall(SYS_gettid) == getpid() ? meet_file("read", fd) : NONE;
}

ssize_t read(int fd, void *bytes, size_t count) {
  enum fault fault = meet_read(fd);
  FAULTY(fault);
  return finish(fault, syscall(SYS_read, fd, bytes, count));
}

ssize_t pread64(int fd, void *bytes, size_t count, off64_t offset) {
  enum fault fault = meet_read(fd);
  FAULTY(fault);
  return finish(fault, syscall(SYS_pread64, fd, bytes, count, offset));
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

int link(const char *from, const char *to) {
  enum fault fault = meet("link", to);
  FAULTY(fault);
  return finish(fault, syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char *path) {
  enum fault fault = meet("link", path);
  FAULTY(fault);
  return finish(fault, syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int mkdir(const char *path, mode_t mode) {
  enum fault fault = meet("make", path);
  FAULTY(fault);
  return finish(fault, syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  enum fault fault = flags & O_CREAT ? meet("make", path) : NONE;
  FAULTY(fault);
  return finish(fault, syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int ftruncate64(int fd, off64_t length) {
  enum fault fault = meet_file("truncate", fd);
  FAULTY(fault);
  return finish(fault, syscall(SYS_ftruncate, fd, length));
}
