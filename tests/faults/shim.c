/* Loaded before the C library (LD_PRELOAD): counts what a process does to files below one folder, and at the n-th
   operation kills the process, or lets the disk be full, or read-only, from then on. Nothing happens before
   `faults_arm`, which the test calls in the forked process. Not for shipping: `faulty.py` compiles it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, COUNT, KILL, FULL, READ_ONLY };
static int mode = NOTHING;
static long at = 0, delay = 0;
static atomic_long operations = 0;
static char root[PATH_MAX];
static size_t root_length = 0;

#define REAL(name) \
    static __typeof__(&name) real = 0; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* delay: microseconds to wait before each operation, so that others have time to look. */
void faults_arm(const char *folder, int what, long when, long wait) {
    strncpy(root, folder, sizeof root - 1);
    root_length = strlen(root);
    operations = 0;
    at = when;
    delay = wait;
    mode = what;
}
long faults_operations(void) { return operations; }
void faults_disarm(void) { mode = NOTHING; }

static int is_below(const char *path) {
    return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}
static int path_is_below(int folder, const char *path) {
    char whole[PATH_MAX * 2], link[64];
    if (path[0] == '/') return is_below(path);
    if (folder == AT_FDCWD) {
        if (!getcwd(whole, PATH_MAX)) return 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, whole, PATH_MAX - 1);
        if (length < 0) return 0;
        whole[length] = 0;
    }
    strncat(whole, "/", 2);
    strncat(whole, path, PATH_MAX - 1);
    return is_below(whole);
}
static int descriptor_is_below(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}
/* 0: go on; -1: fail, errno is set. `needs_room`: whether it fails on a full disk. */
static int step(int needs_room) {
    long number = ++operations;
    if (delay) usleep(delay);
    if (mode == KILL && number == at) kill(getpid(), SIGKILL);
    if (mode == FULL && number >= at && needs_room) return errno = ENOSPC, -1;
    if (mode == READ_ONLY) return errno = EROFS, -1;
    return 0;
}
#define PATH_STEP(folder, path, room) \
    if (mode && path_is_below(folder, path) && step(room)) return -1
#define DESCRIPTOR_STEP(descriptor) \
    if (mode && descriptor_is_below(descriptor) && step(1)) return -1

static int opens(int folder, const char *path, int flags) {
    if (!mode || !(flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) || !path_is_below(folder, path)) return 0;
    struct stat status;
    int there = !fstatat(folder, path, &status, 0);
    return step(!there);
}
#define OPEN(name, folder, parameters, arguments) \
    int name parameters { \
        REAL(name); \
        mode_t permissions = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            permissions = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (opens(folder, path, flags)) return -1; \
        return real arguments; \
    }
OPEN(open, AT_FDCWD, (const char *path, int flags, ...), (path, flags, permissions))
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), (path, flags, permissions))
OPEN(openat, folder, (int folder, const char *path, int flags, ...), (folder, path, flags, permissions))
OPEN(openat64, folder, (int folder, const char *path, int flags, ...), (folder, path, flags, permissions))

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL(write);
    DESCRIPTOR_STEP(descriptor);
    return real(descriptor, data, size);
}
ssize_t writev(int descriptor, const struct iovec *data, int count) {
    REAL(writev);
    DESCRIPTOR_STEP(descriptor);
    return real(descriptor, data, count);
}
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    REAL(pwrite);
    DESCRIPTOR_STEP(descriptor);
    return real(descriptor, data, size, offset);
}
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
    REAL(pwrite64);
    DESCRIPTOR_STEP(descriptor);
    return real(descriptor, data, size, offset);
}
int ftruncate(int descriptor, off_t size) {
    REAL(ftruncate);
    DESCRIPTOR_STEP(descriptor);
    return real(descriptor, size);
}
int ftruncate64(int descriptor, off64_t size) {
    REAL(ftruncate64);
    DESCRIPTOR_STEP(descriptor);
    return real(descriptor, size);
}
int mkdir(const char *path, mode_t permissions) {
    REAL(mkdir);
    PATH_STEP(AT_FDCWD, path, 1);
    return real(path, permissions);
}
int mkdirat(int folder, const char *path, mode_t permissions) {
    REAL(mkdirat);
    PATH_STEP(folder, path, 1);
    return real(folder, path, permissions);
}
int rmdir(const char *path) {
    REAL(rmdir);
    PATH_STEP(AT_FDCWD, path, 0);
    return real(path);
}
int unlink(const char *path) {
    REAL(unlink);
    PATH_STEP(AT_FDCWD, path, 0);
    return real(path);
}
int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat);
    PATH_STEP(folder, path, 0);
    return real(folder, path, flags);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    PATH_STEP(AT_FDCWD, to, 0);
    return real(from, to);
}
int renameat(int from_folder, const char *from, int folder, const char *to) {
    REAL(renameat);
    PATH_STEP(folder, to, 0);
    return real(from_folder, from, folder, to);
}
int link(const char *from, const char *to) {
    REAL(link);
    PATH_STEP(AT_FDCWD, to, 1);
    return real(from, to);
}
int linkat(int from_folder, const char *from, int folder, const char *to, int flags) {
    REAL(linkat);
    PATH_STEP(folder, to, 1);
    return real(from_folder, from, folder, to, flags);
}
int symlink(const char *to, const char *path) {
    REAL(symlink);
    PATH_STEP(AT_FDCWD, path, 1);
    return real(to, path);
}
/* Only a power cut loses what was written and not synchronised, and waiting takes minutes. */
int fsync(int descriptor) {
    REAL(fsync);
    return mode ? 0 : real(descriptor);
}
int fdatasync(int descriptor) {
    REAL(fdatasync);
    return mode ? 0 : real(descriptor);
}
