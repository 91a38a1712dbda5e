/*
 * Ends a mounted file system as a power cut does: what was not synced is lost, its journal's tail
 * too. Of ext4 and XFS (FS_IOC_SHUTDOWN with NOLOGFLUSH); it has to be unmounted after that.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define SHUTDOWN _IOR('X', 125, uint32_t)

int main(int count, char **arguments) {
  uint32_t withoutFlush = 2;
  int folder = count == 2 ? open(arguments[1], O_RDONLY) : -1;
  if (folder < 0 || ioctl(folder, SHUTDOWN, &withoutFlush) < 0) {
    perror("power-cut");
    return 1;
  }
  return 0;
}
