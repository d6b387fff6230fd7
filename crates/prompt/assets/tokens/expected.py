"""Writes what tiktoken counts, for the tests: python3 expected.py FOLDER > expected.jsonl, with FOLDER as for make.py."""

import base64
import gzip
import json
import pathlib
import random
import sys

import tiktoken
from tiktoken_ext import openai_public

FOLDER = pathlib.Path(sys.argv[1])


def load(name: str) -> tiktoken.Encoding:
    """The encoding with tiktoken's own pattern, over a file in place of a download."""
    lines = gzip.decompress((FOLDER / f"{name}.tiktoken.gz").read_bytes()).splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
    openai_public.load_tiktoken_bpe = lambda *_, **__: ranks
    return tiktoken.Encoding(**getattr(openai_public, name)())


SPACE = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\u00a0", "\u3000", "\u2028", "\x0b", "\x85", " " * 90]
WORDS = ["a", "I", "don't", "we'LL", "'s", "hello", "World", "HTTPServer", "camelCaseName", "straße", "ﬁ", "été", "e\u0301a\u0302", "Łódź",
         "Что", "такое", "東京都", "お誕生日", "한국어", "ไทย", "हिन्दी", "עברית", "العربية", "ሀገር", "ǅ", "ʰa", "İ", "ſ", "K", "👩‍👩‍👧", "😀", "\u200b",
         "x" * 40, "abab" * 20, "1", "42", "1234567", "٣٤٥", "½", "Ⅷ", "²"]
MARKS = [".", ",", "...", "!?", "/", "//", "/\n", "=>", "{}", "();", "\"", "'", "_", "__init__", "—", "…", "$", "<|endoftext|>", "\x00", "\x7f"]

random.seed(1)
encodings = [load("cl100k_base"), load("o200k_base")]
texts = SPACE + WORDS + MARKS + [""]
for _ in range(700):
    parts = [random.choice(random.choice([SPACE[:3], SPACE, WORDS, WORDS, MARKS])) for _ in range(random.randint(2, 24))]
    texts.append("".join(parts))
for _ in range(200):
    texts.append("".join(chr(random.choice([random.randrange(32, 127), random.randrange(0xd800), random.randrange(0xe000, 0x11000)])) for _ in range(random.randint(1, 40))))
for text in texts:
    print(json.dumps([text, *(len(encoding.encode_ordinary(text)) for encoding in encodings)]))
