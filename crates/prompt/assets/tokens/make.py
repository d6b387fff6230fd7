"""Makes `cl100k.bin` and `o200k.bin` from OpenAI's vocabularies: python3 make.py FOLDER, with cl100k_base.tiktoken.gz and
o200k_base.tiktoken.gz in FOLDER. README.md describes the result."""

import base64
import gzip
import pathlib
import sys
import zlib


def split(token: bytes, ranks: dict[bytes, int]) -> int:
    """The length of the left half that byte-pair encoding merges last into the token; 0 for a single byte."""
    rank, parts = ranks[token], [token[at : at + 1] for at in range(len(token))]
    while len(parts) > 2:
        merges = [(ranks.get(left + right, rank), at) for at, (left, right) in enumerate(zip(parts, parts[1:]))]
        first, at = min(merges)
        assert first < rank, token
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return len(parts[0]) if len(parts) == 2 else 0


def vocabulary(path: pathlib.Path) -> bytes:
    ranks = {}
    for line in gzip.decompress(path.read_bytes()).splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    assert sorted(ranks.values()) == list(range(len(ranks)))
    tokens = sorted(ranks)
    shared, previous = [], b""
    for token in tokens:
        length = next((at for at, (a, b) in enumerate(zip(token, previous)) if a != b), min(len(token), len(previous)))
        shared.append(length)
        previous = token
    columns = [
        bytes(shared),
        bytes(len(token) for token in tokens),
        bytes(split(token, ranks) for token in tokens),
        *(bytes(ranks[token] >> shift & 255 for token in tokens) for shift in (0, 8, 16)),
        b"".join(token[length:] for token, length in zip(tokens, shared)),
    ]
    return len(tokens).to_bytes(4, "little") + b"".join(columns)


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


for name in ("cl100k", "o200k"):
    made = vocabulary(pathlib.Path(sys.argv[1]) / f"{name}_base.tiktoken.gz")
    packed = deflate(made)
    pathlib.Path(f"{name}.bin").write_bytes(packed)
    print(name, len(made), len(packed))
