"""Serves a GGUF model with llama.cpp's own server on a free port: llama_server.py MODEL.gguf SLOTS CONTEXT."""

import signal
import sys
import threading

import xllamacpp

model, slots, context = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params = xllamacpp.CommonParams()
params.model.path = model
params.hostnames = ["127.0.0.1"]
params.port = 0
params.ui = False
params.use_jinja = True
params.n_parallel = slots
params.n_ctx = context
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.endpoint_metrics = params.endpoint_slots = True
if "embed" in model:
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)

done = threading.Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: done.set())
done.wait()
