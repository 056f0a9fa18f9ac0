# SPDX-License-Identifier: BSD-3-Clause
"""Directories of deltas, as nbdloop-backup(7) documents them, without nbdloop:

delta_files.py make DIRECTORY IMAGES SECONDS...   makes a chain, a backup for each time since 1970,
                                                  and what each restores, IMAGES.NUMBER
delta_files.py check DIRECTORY IMAGES NUMBERS...  restores as a program that knows no merges
                                                  does, and compares with IMAGES.NUMBER
"""
import os
import random
import struct
import sys

SIZE = 48 << 10
FIXED, RECORD = 80, 32
DATA, ZEROES, END = 1, 2, 3


def make_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = make_table()


def crc32c(crc, data):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def path_of(directory, number):
    return os.path.join(directory, f"{number:06}.delta")


def encode_header(number, seconds, identity, parent):
    source, bitmap = b"nbd://host/disk", b"night%d" % number
    header = b"NBDDELTA" + struct.pack(">II", 1, FIXED + len(source) + len(bitmap) + 4)
    header += struct.pack(">QQQ", SIZE, number, seconds) + identity + parent
    header += struct.pack(">II", len(source), len(bitmap)) + source + bitmap
    return header + struct.pack(">I", crc32c(0, header))


def encode_record(seed, kind, checksum, offset, length):
    record = struct.pack(">IIQQI", kind, checksum, offset, length, 0)
    return record + struct.pack(">I", crc32c(seed, record))


def changes(image, number, chance):
    """Changes some parts of the image; those of a full backup are all that it has."""
    parts, offset = [], 0
    while offset < SIZE:
        length = min(chance.randrange(1, 16 << 10), SIZE - offset)
        kind = chance.choice([DATA, ZEROES, None])
        if kind == DATA:
            image[offset : offset + length] = chance.randbytes(length)
        if kind == ZEROES:
            image[offset : offset + length] = bytes(length)
        if kind == DATA or (kind == ZEROES and number):
            parts.append((kind, offset, length))
        offset += length
    chance.shuffle(parts)
    return parts


def make(directory, images, times):
    chance = random.Random(20)
    image, parent = bytearray(SIZE), bytes(16)
    os.mkdir(directory)
    for number, seconds in enumerate(times):
        identity = chance.randbytes(16)
        header = encode_header(number, seconds, identity, parent)
        seed, total = crc32c(0, header[:-4]), 0
        parts = changes(image, number, chance)
        with open(path_of(directory, number), "wb") as file:
            file.write(header)
            for kind, offset, length in parts:
                data = image[offset : offset + length] if kind == DATA else b""
                total += len(data)
                file.write(encode_record(seed, kind, crc32c(seed, data) if data else 0, offset, length))
                file.write(data)
            file.write(encode_record(seed, END, 0, len(parts), total))
        with open(f"{images}.{number}", "wb") as file:
            file.write(image)
        parent = identity


def apply(path, number, parent, image):
    """Returns the identity."""
    with open(path, "rb") as file:
        delta = file.read()
    magic, version, length, size, own, _ = struct.unpack(">8sIIQQQ", delta[:40])
    assert (magic, version, size, own) == (b"NBDDELTA", 1, SIZE, number), path
    assert delta[56:72] == parent, f"{path} belongs on another backup"
    seed, at, records, total = crc32c(0, delta[: length - 4]), length, 0, 0
    assert struct.unpack(">I", delta[length - 4 : length])[0] == seed, path
    while True:
        kind, checksum, offset, length, flags, own = struct.unpack(">IIQQII", delta[at : at + RECORD])
        assert (own, flags) == (crc32c(seed, delta[at : at + RECORD - 4]), 0), path
        at += RECORD
        if kind == END:
            assert (offset, length, at) == (records, total, len(delta)), f"{path}: the end"
            return delta[40:56]
        records += 1
        assert kind in (DATA, ZEROES) and 0 < length <= 1 << 20 and offset + length <= SIZE, path
        if kind == DATA:
            data, at, total = delta[at : at + length], at + length, total + length
            assert checksum == crc32c(seed, data), f"{path}: data at {offset}"
            image[offset : offset + length] = data
        else:
            image[offset : offset + length] = bytes(length)


def check(directory, images, numbers):
    image, parent = bytearray(SIZE), bytes(16)
    for number in range(max(numbers) + 1):
        parent = apply(path_of(directory, number), number, parent, image)
        if number in numbers:
            with open(f"{images}.{number}", "rb") as file:
                assert file.read() == image, f"backup {number} in {directory} is another one"


if sys.argv[1] == "make":
    make(sys.argv[2], sys.argv[3], [int(seconds) for seconds in sys.argv[4:]])
else:
    check(sys.argv[2], sys.argv[3], [int(number) for number in sys.argv[4:]])
