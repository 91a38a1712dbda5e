"""Runs promises, each a function, and tells what became of each; for the scripts beside it.

A script ends with `keep(globals(), make_arguments)` and is run as: SCRIPT ENDPOINT PROMISE...
Keys come from the AWS environment variables. Importing what data people use takes longer than most
promises do, so all promises of a script share one process. Its last line is a JSON object: each
promise with `skipped`, which says why, or `failed`, the traceback, or neither.
"""

import json
import os
import random
import re
import sys
import traceback
import urllib.request
from pathlib import Path

MIB = 1024 * 1024


class Skipped(Exception):
    """What this version of the client cannot be asked, and why."""


def keep(functions, make_arguments):
    """`make_arguments(endpoint, promise)` gives what that promise's function is called with."""
    endpoint, *promises = sys.argv[1:]
    outcomes = {}
    for promise in promises:
        try:
            functions[promise](*make_arguments(endpoint, promise))
            outcomes[promise] = {}
        except Skipped as why:
            outcomes[promise] = {"skipped": str(why)}
        except Exception:
            outcomes[promise] = {"failed": traceback.format_exc()}
    print(json.dumps(outcomes), flush=True)
    leave()


def leave():
    """Ends a script that has done all it was to do, without what the interpreter does at its end.

    pyarrow's threads may be at work still when it takes its own objects apart, which now and then
    ends the process by SIGABRT: "terminate called without an active exception".
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def documented(client, endpoint):
    """The client's first block of lines in docs/clients.md, as they are for this gateway."""
    page = Path(__file__).parents[2].joinpath("docs", "clients.md").read_text("utf-8")
    section = page.split(f"\n## {client}\n")[1].split("\n## ")[0]
    lines = re.search(r"^```\w+\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[1]
    for placeholder, value in (
        ("127.0.0.1:9000", endpoint.removeprefix("http://")),
        ("BURXXXXXXXXXXXXXXXXX", os.environ["AWS_ACCESS_KEY_ID"]),
        ("the-secret", os.environ["AWS_SECRET_ACCESS_KEY"]),
    ):
        lines = lines.replace(placeholder, value)
    return lines


def run_documented(client, endpoint, name):
    """Runs these lines, and gives what they bind to `name`."""
    names = {}
    exec(documented(client, endpoint), names)
    return names[name]


def seeded(seed, size):
    return random.Random(seed).randbytes(size)


def fetch(url, data=None, method="GET", headers=None):
    """Plain HTTP, without any knowledge of S3 and without proxies."""
    return open_url(url, data, method, headers).read()


def open_url(url, data=None, method="GET", headers=None):
    request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(request, timeout=30)


def refused(call, status, code=None):
    """Asserts that a call of boto3 is refused so, and gives back the whole answer."""
    try:
        call()
    except Exception as error:
        answer = getattr(error, "response", None)
        if not isinstance(answer, dict):
            raise
        seen = (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"])
        assert seen[0] == status, f"wanted {status} {code}, got {seen}"
        assert code is None or seen[1] == code, f"wanted {status} {code}, got {seen}"
        return answer
    raise AssertionError(f"was not refused with {status} {code}")
