"""The frame of every Python suite: checks are functions, each prints one line, PASS or FAIL with the reason.

BASE_URL (with /v1), API_KEY and MODEL come from the runner. MARK_URL, if set, is told the name of each check, for the record of its traffic.
"""

import asyncio
import inspect
import os
import traceback
import urllib.request

BASE_URL = os.environ["BASE_URL"].rstrip("/")
ROOT_URL = BASE_URL.removesuffix("/v1")
API_KEY = os.environ.get("API_KEY", "sk-test")
MODEL = os.environ["MODEL"]
# A red square of 8 × 8 pixels.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4z8CAFTEMLQkAKP8/wc53yE8AAAAASUVORK5CYII="
PNG_SEEN = "image/png of 74 bytes"
REASONING = "The user wants an answer, so I will give one."
CHECKS = []


def failing(kind):
    """The model for failures of a kind: a gateway gives it backends of its own, so that its breakers spare the other checks."""
    return f"{MODEL}-{kind}"


def check(function):
    """Registers a check."""
    CHECKS.append(function)
    return function


def same(got, expected, about="result"):
    """Fails unless both are equal."""
    assert got == expected, f"{about}: got {got!r}, expected {expected!r}"


def raises(kind, function, status=None, contains=None):
    """Fails unless the call raises exactly this class (no subclass), with this status and text; returns the exception."""
    try:
        result = function()
    except Exception as error:
        assert type(error) is kind, f"got {type(error).__name__} ({error}), expected {kind.__name__}"
        if status is not None:
            same(getattr(error, "status_code", None), status, "status")
        assert contains is None or contains in str(error), f"{contains!r} is not in: {error}"
        return error
    raise AssertionError(f"got {result!r}, expected {kind.__name__}")


def ordered(got, *expected):
    """Fails unless the expected values appear in this order, others between them allowed."""
    rest = iter(got)
    for value in expected:
        assert any(value == other for other in rest), f"{value!r} is missing or out of order in {got}"


def run():
    """Runs the checks named in ONLY, or all."""
    only = os.environ.get("ONLY")
    failed = False
    for function in CHECKS:
        if only and only not in function.__name__:
            continue
        if "MARK_URL" in os.environ:
            urllib.request.urlopen(f"{os.environ['MARK_URL']}/{function.__name__}").close()
        try:
            result = function()
            if inspect.iscoroutine(result):
                asyncio.run(asyncio.wait_for(result, 60))
            print(f"PASS {function.__name__}", flush=True)
        except Exception as error:
            failed = True
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:600]
            print(f"FAIL {function.__name__}: {reason} [{os.path.basename(place.filename)}:{place.lineno}]", flush=True)
    raise SystemExit(failed)
