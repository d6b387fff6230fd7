#!/usr/bin/env python3
"""Makes minilm-w8.safetensors: the weights of all-MiniLM-L6-v2 with matrices as int8, one scale for each row.

usage: export_w8.py MODEL_DIR OUT.safetensors      needs: numpy safetensors
"""
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

source, out = sys.argv[1:3]
kept = {}
for name, weights in load_file(f"{source}/model.safetensors").items():
    if name.startswith("pooler") or name.endswith("position_ids"):
        continue
    if "position" in name:
        kept[name] = weights.astype(np.float16)
    elif weights.ndim == 2 and "token_type" not in name:
        scale = np.abs(weights).max(1) / 127
        scale[scale == 0] = 1
        kept[name] = np.clip(np.round(weights / scale[:, None]), -127, 127).astype(np.int8)
        kept[name + ".scale"] = scale.astype(np.float32)
    else:
        kept[name] = weights
save_file(kept, out)
