"""The rules of docs/style.md that a program can check."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from typing import TYPE_CHECKING

from tests.unit.test_docs import ROOT
from tests.unit.test_docs_style import GENERATED, prose

if TYPE_CHECKING:
    from pathlib import Path

MAX_SENTENCE_WORDS = 30
_WORDS = re.compile(
    r"\b(?:beside|anew|mend(?:s|ed)?|heed(?:s|ed)?|nobody|somebody|whoever|told|says?|said|asked|"
    r"carr(?:y|ies) on|goes on|so many|as far as|what (?:is|was) (?:left|read|asked)|in turns|"
    r"not (?:shown|looked at)|a failure of ours|our (?:reader|planner|jar)|Spark's mapping)\b",
    re.IGNORECASE,
)
_OPENING = re.compile(r"^(?:What|Of|Where|Who|Which)\b(?!.*\?)")
_VERBS = "need|feed|embed|seed|ping|supported_protocols"  # the last is kafka-python's
_PARTICIPLE = re.compile(rf"^_*(?!(?:{_VERBS})(?:_|$))[a-z]+(?:ed|ing)(?:_|$)")
_JAVA = re.compile(r'//(.*)|/\*(.*?)\*/|"((?:[^"\\\n]|\\.)*)"', re.DOTALL)
_PAGE = re.compile(r"^##+ (?:What|How|Where|When|Why)\b|\b(?:[Ww]e|[Uu]s|[Oo]urs?)\b", re.MULTILINE)


def python_hits(path: Path) -> list[str]:
    with tokenize.open(path) as source:
        tokens = [*tokenize.generate_tokens(source.readline)]
    hits = _WORDS.findall("\n".join(t.string for t in tokens if t.type == tokenize.COMMENT))
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            hits += _WORDS.findall(node.value)
        elif isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            hits += _OPENING.findall((ast.get_docstring(node) or "").partition("\n")[0])
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            is_predicate = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
            hits += [] if is_predicate else _PARTICIPLE.findall(node.name)
    return hits


def java_hits(path: Path) -> list[str]:
    texts = ("".join(groups).lstrip("* \n") for groups in _JAVA.findall(path.read_text("utf-8")))
    return [hit for text in texts for hit in (*_WORDS.findall(text), *_OPENING.findall(text))]


def page_hits(path: Path) -> list[str]:
    text = "" if path.name in GENERATED else re.sub(r"`[^`\n]*`", "code", prose(path))
    plain = re.sub(r"^[|#].*$", "", text, flags=re.MULTILINE)
    sentences = re.split(r"(?<=[.!?:;])\s+|\n\s*(?:[-*]|\d+\.) |\n\n", plain)
    long = [sentence for sentence in sentences if len(sentence.split()) > MAX_SENTENCE_WORDS]
    return [*long, *_WORDS.findall(text), *_PAGE.findall(text)]


CHECKS = (
    ("assignor_bridge/**/*.py", python_hits), ("assignor_bridge/**/*.java", java_hits),
    ("streaming/**/*.py", python_hits), ("checkpoints/**/*.py", python_hits),
    ("docs/**/*.md", page_hits), ("*.md", page_hits),
)  # fmt: skip


def test_no_text_and_no_name_breaks_a_rule():
    found = ((path, find(path)) for pattern, find in CHECKS for path in ROOT.glob(pattern))
    assert {str(path.relative_to(ROOT)): hits for path, hits in found if hits} == {}


def test_a_class_name_exists_once():
    paths = [p for pattern, find in CHECKS if find is python_hits for p in ROOT.glob(pattern)]
    lines = "\n".join(path.read_text("utf-8") for path in paths)
    names = Counter(re.findall(r"^class (\w+)", lines, re.MULTILINE))
    assert {name: count for name, count in names.items() if count > 1} == {}
