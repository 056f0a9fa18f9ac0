# SPDX-License-Identifier: BSD-3-Clause
"""The settings of command lines, with the errors in them."""

import argparse
import os
import re


class UsageError(Exception):
    pass


def size_parse(text):
    match = re.fullmatch(r"(\d+)([KMGT]?)", text, re.I)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 64M or 2G")
    size = int(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
    if size < 16 << 20:
        raise argparse.ArgumentTypeError("the image must have at least 16M")
    return size


def count_parse(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return int(text)


def seconds_parse(text):
    if re.fullmatch(r"\d+(\.\d+)?", text) is None or float(text) < 0.1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds, 0.1 or more")
    return float(text)


def threads_parse(text):
    values = [v for v in text.split(",") if v not in ("", "0")]
    if not all(v.isdecimal() for v in values):
        raise UsageError(f"--threads: '{text}' is not a list of numbers")
    return [int(v) for v in values]


def image_options_add(parser):
    """Options for the place and the size of the image, for each program that measures on an image."""
    parser.add_argument("--image-size", metavar="SIZE", type=size_parse, default="2G", help="(%(default)s)")
    parser.add_argument(
        "--directory",
        metavar="DIR",
        default=os.environ.get("TMPDIR", "/var/tmp"),
        help="where the image is made, on the disk to measure ($TMPDIR, else /var/tmp)",
    )
    parser.add_argument("--install", action="store_true", help="install what is missing (apt-get) instead of failing")
