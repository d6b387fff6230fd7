"""Packs the files of the sentence model for the binary: python3 make.py FOLDER, with minilm-w8.safetensors, static-256.bin
and tokenizer.json in FOLDER. README.md describes the result."""

import pathlib
import sys
import zlib

HERE = pathlib.Path(__file__).parent
# The length of the first two parts of the weights: a package has at most 10 MB.
PART = 9_600_000


def deflate(file: str) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress((pathlib.Path(sys.argv[1]) / file).read_bytes()) + packer.flush()


weights = deflate("minilm-w8.safetensors")
parts = {
    HERE / "weights-3.bin": weights[2 * PART :],
    HERE / "../../minilm-data-1/weights-1.bin": weights[:PART],
    HERE / "../../minilm-data-2/weights-2.bin": weights[PART : 2 * PART],
    HERE / "table.bin": deflate("static-256.bin"),
    HERE / "tokenizer.bin": deflate("tokenizer.json"),
}
for path, data in parts.items():
    path.write_bytes(data)
    print(path.resolve().name, len(data))
