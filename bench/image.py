# SPDX-License-Identifier: BSD-3-Clause
"""The image file that is measured, and how much of it the page cache holds."""

import ctypes
import errno
import mmap
import os

MIB = 1024 * 1024

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                      ctypes.c_int, ctypes.c_int, ctypes.c_long)
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)

# mincore(2) sets bit 0 of each byte; the other bits are reserved.
RESIDENT = bytes(i & 1 for i in range(256))


class ImageError(Exception):
    pass


class Image:
    """A file full of random data: no holes, no unwritten extents."""

    def __init__(self, directory, size):
        self.path = os.path.join(directory, "disk.img")
        self.size = size
        status = os.statvfs(directory)
        if status.f_bavail * status.f_frsize < self.needs() + 64 * MIB:
            raise ImageError(f"{directory}: not enough free space for an image of "
                             f"{self.needs() // MIB} MiB (--directory, --image-size)")
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self._fill()
        except BaseException:
            self.remove()
            raise

    def needs(self):
        """The bytes that it takes of the disk."""
        return self.size

    def _fill(self):
        left = self.size
        while left > 0:
            left -= os.write(self.fd, os.urandom(min(left, MIB)))
        os.fsync(self.fd)
        hole = os.lseek(self.fd, 0, os.SEEK_HOLE)
        if hole != self.size:
            raise ImageError(f"{self.path}: has a hole at {hole} although every byte was written")

    def remove(self):
        os.close(self.fd)
        os.unlink(self.path)

    def takes_direct_io(self):
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as e:
            if e.errno != errno.EINVAL:
                raise
            return False
        os.close(fd)
        return True

    def settle(self):
        """Writes dirty pages to the disk, then drops the image from the page cache."""
        os.fsync(self.fd)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return self.cached()

    def cached(self):
        """The bytes of the image that are in the page cache now."""
        pages = (self.size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        address = libc.mmap(None, self.size, mmap.PROT_READ, mmap.MAP_SHARED, self.fd, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap", self.path)
        try:
            vector = ctypes.create_string_buffer(pages)
            if libc.mincore(address, self.size, vector) != 0:
                raise OSError(ctypes.get_errno(), "mincore", self.path)
        finally:
            libc.munmap(address, self.size)
        return vector.raw.translate(RESIDENT).count(1) * mmap.PAGESIZE
