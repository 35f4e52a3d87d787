"""A planted secret is found in each form, or the test that looks for them proves nothing."""

from __future__ import annotations

import base64
import gzip
import html
import json
from dataclasses import replace
from urllib.parse import quote

import pytest

from checkpoints.state_text import encode
from checkpoints.sticky_state import StickyState
from tests.support.canaries import find_secrets

SECRET = 'canary of+the"<store>/é'  # noqa: S105
SECRETS = {"here": SECRET, "elsewhere": "another-secret"}


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps({"a": SECRET}),
        json.dumps({"a": SECRET}, ensure_ascii=False),
        f"http://h/?a={quote(SECRET)}&b=1",
        f"http://h/?a={quote(SECRET, safe='')}&b=1",
        f"<p>{html.escape(SECRET)}</p>",
        *(
            "Basic " + base64.b64encode(f"{user}:{SECRET}".encode()).decode()
            for user in ("u", "us", "use")
        ),
        encode(replace(StickyState.empty(), topics=("a", SECRET))),
        "v1\n" + encode(replace(StickyState.empty(), topics=("a", SECRET))) + "\n",
    ],
)
def test_a_planted_secret_is_found_in_each_form(written):
    assert find_secrets(written.encode(), SECRETS) == ["here"]
    assert find_secrets(gzip.compress(written.encode()), SECRETS) == ["here"]


def test_nothing_is_found_where_nothing_was_planted():
    state = encode(replace(StickyState.empty(), topics=("a", "canary")))
    assert find_secrets(f"v1\n{state}\n canary of the store".encode(), SECRETS) == []
