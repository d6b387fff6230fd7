#!/usr/bin/env python3
"""Makes static-256.bin: a vector for each word piece, distilled from the sentence model as Model2Vec does.

usage: distill_static.py ONNX TOKENIZER OUT DIM    needs: numpy onnxruntime tokenizers

ONNX is the f32 model that export_onnx.py writes. Each piece goes through it alone, between [CLS] and [SEP]; the means of the last
layer are reduced by principal components and weighed by how common a piece is, which its rank in the vocabulary tells (Zipf).
"""
import struct
import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

model, vocabulary, out, dim = sys.argv[1], Tokenizer.from_file(sys.argv[2]), sys.argv[3], int(sys.argv[4])
CLS, SEP = 101, 102
size = vocabulary.get_vocab_size()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(model, options)

vectors = np.zeros((size, 384), np.float32)
for first in range(0, size, 512):
    ids = np.array([[CLS, piece, SEP] for piece in range(first, min(first + 512, size))], np.int64)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    vectors[first : first + len(ids)] = session.run(None, inputs)[0].mean(1)

# [CLS], [SEP], [unused7] and the like say nothing: their rows are zero.
names = {number: piece for piece, number in vocabulary.get_vocab().items()}
special = np.array([names[i].startswith("[") and names[i].endswith("]") and len(names[i]) > 2 for i in range(size)])
centred = vectors - vectors[~special].mean(0)
_, _, components = np.linalg.svd(centred[~special], full_matrices=False)
rows = centred @ components[:dim].T

frequency = 1.0 / (np.cumsum(~special) + 1)
frequency /= frequency[~special].sum()
rows *= (1e-4 / (1e-4 + frequency)).astype(np.float32)[:, None]
rows[special] = 0

scale = np.abs(rows).max(1) / 127
scale[scale == 0] = 1
integers = np.round(rows / scale[:, None]).astype(np.int8)
with open(out, "wb") as file:
    file.write(b"SEM1" + struct.pack("<II", *rows.shape) + scale.astype("<f4").tobytes() + integers.tobytes())
