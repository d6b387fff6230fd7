#!/usr/bin/env python3
"""Vectors of the texts of pairs, for `benches/cache` and `examples/fit_cache.rs`.

usage: embed.py MODELS OUT PAIRS.jsonl[.gz]...

MODELS holds `minilm-int8.onnx`, `static-256.bin` and `tokenizer.json`. Writes OUT.hash (XXH3-64 of each text, u64), OUT.minilm and
OUT.static (f32), all little endian. Needs onnxruntime, tokenizers, numpy and xxhash.
"""
import gzip
import json
import struct
import sys

import numpy as np
import onnxruntime
import xxhash
from tokenizers import Tokenizer

models, out, files = sys.argv[1], sys.argv[2], sys.argv[3:]
texts = set()
for name in files:
    for line in gzip.open(name, "rt") if name.endswith("gz") else open(name):
        row = json.loads(line)
        texts |= {row["a"], row["b"]}
texts = sorted(texts)
tokenizer = Tokenizer.from_file(f"{models}/tokenizer.json")
tokenizer.no_truncation()
tokenizer.no_padding()
tokens = [encoding.ids[:256] for encoding in tokenizer.encode_batch(texts)]

raw = open(f"{models}/static-256.bin", "rb").read()
rows, dim = struct.unpack("<II", raw[4:12])
scale = np.frombuffer(raw, "<f4", rows, 12)
table = np.frombuffer(raw, np.int8, rows * dim, 12 + 4 * rows).reshape(rows, dim) * scale[:, None]
static = np.stack([table[ids].mean(0) for ids in tokens])
static /= np.maximum(np.linalg.norm(static, axis=1, keepdims=True), 1e-9)

session = onnxruntime.InferenceSession(f"{models}/minilm-int8.onnx")
minilm = np.zeros((len(texts), 384), np.float32)
# Only texts of one length in a batch: no padding, so that nothing has to be masked.
order = sorted(range(len(texts)), key=lambda at: len(tokens[at]))
start = 0
while start < len(order):
    end = start
    while end < len(order) and end - start < 64 and len(tokens[order[end]]) == len(tokens[order[start]]):
        end += 1
    ids = np.array([tokens[at] for at in order[start:end]], np.int64)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    mean = session.run(None, inputs)[0].mean(1)
    minilm[order[start:end]] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    start = end

np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts], "<u8").tofile(f"{out}.hash")
static.astype("<f4").tofile(f"{out}.static")
minilm.astype("<f4").tofile(f"{out}.minilm")
