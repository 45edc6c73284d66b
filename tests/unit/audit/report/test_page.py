from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from service.audit.report.charts import MAX_CLASSES
from service.audit.report.page import (
    MAX_CONFLICTS,
    Conflict,
    ReportMetadata,
    TrainingSection,
    TypeRow,
    render_page,
)
from service.audit.report.sentences import parse_given_spans
from service.audit.summary import AuditSummary
from service.labels import Scheme, Span
from service.text import format_percent, format_score, pluralize, show_control_chars
from tests.unit.audit.fake_model import CLASSES, assess_sentence, make_judge

HOSTILE_MARKUP = "<script>alert(1)</script>"
HOSTILE_ATTRIBUTE = "\"'onmouseover=alert(1)//"
VOID = {"meta", "input", "br", "hr", "img", "link"}


class Checker(HTMLParser):
    """Checks that every tag is closed, in order, and collects tags, ids and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice: {names}"
        self.tags.append((tag, dict(attrs)))
        if dict(attrs).get("id"):
            self.ids.append(str(dict(attrs)["id"]))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "q":  # browsers add the quotes
            self.text.append("“")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        if tag == "q":
            self.text.append("”")

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def parse_page(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    return checker


def make_metadata(**changes: object) -> ReportMetadata:
    fields: dict[str, object] = {
        "sources": ["data.tsv"],
        "model": "tiny",
        "fingerprint": "0123456789abcdef",
        "method": "worst-token",
        "token_score": "self-confidence",
        "scheme": Scheme.IOB2,
        "stream": False,
    }
    return ReportMetadata(**(fields | changes))  # type: ignore[arg-type]


def summarize(*sentences: tuple[str, str, str], **fields: str) -> AuditSummary:
    judge = make_judge()
    summary = AuditSummary(judge.classes)
    for number, (tokens, given, read) in enumerate(sentences):
        summary.add(*assess_sentence(tokens, given, read, judge=judge, fields={"id": str(number), **fields}))
    return summary


ALL_KINDS = (
    ("Ann saw Oslo", "B-PER O O", "B-PER O B-LOC"),
    ("the port chamber", "O B-LOC I-LOC", "O O O"),
    ("Bo Lee ran", "B-LOC I-LOC O", "B-PER I-PER O"),
    ("New York Bay", "B-LOC I-LOC O", "B-LOC I-LOC I-LOC"),
    ("all is well", "O O O", "O O O"),
    ("\u200b", "O", "?"),
)


def test_the_page_is_well_formed_and_shows_the_results() -> None:
    html = render_page(
        summarize(*ALL_KINDS), make_metadata(created_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC), rejected=3)
    )
    text = " ".join("".join(parse_page(html).text).split())
    for expected in (
        "data.tsv",
        "sentences6",
        "sentences flagged4 66.7 %",
        "sentences skipped3",
        "One label in 2 is doubtful",
        "Missed “Oslo” no entity → LOC",
        "Spurious “port chamber” LOC → no entity",
        "Wrong type “Bo Lee” LOC → PER",
        "Wrong boundary “New York” → “New York Bay”",
        "not flagged",
        "Not scored: 1 word: no subword.",
        "2026-01-02 03:04 UTC",
        "in two passes",
        "Labels read as IOB2",
    ):
        assert expected in text, expected


TRAINING = TrainingSection(
    sentences=1200,
    sentences_read=1200,
    f1=0.713,
    types=[
        TypeRow("DRUG", 1034, "good enough to review with", 0.81, 0.75, 0.78),
        TypeRow("GENE", 4, "not judged: too few examples"),
    ],
    conflicts=[],
)


def read_page_text(training: TrainingSection | None) -> str:
    html = render_page(summarize(*ALL_KINDS), make_metadata(training=training))
    return " ".join(" ".join(parse_page(html).text).split())


def test_the_training_of_the_model_is_above_the_audit() -> None:
    text = read_page_text(TRAINING)
    shown = text[text.index("The model was trained on") : text.index("Sentence scores")]
    assert "trained on 1,200 sentences. F1 0.71 over all types" in shown
    assert "DRUG 1,034 0.81 0.75 0.78 good enough to review with" in shown
    assert "GENE 4 – – – not judged: too few examples" in shown
    assert "different labels" not in shown
    assert "The model was trained on" not in read_page_text(None)


def test_a_sample_and_conflicting_sentences_are_named_and_bounded() -> None:
    conflicts = [Conflict(f"Velorin {HOSTILE_MARKUP} helps", f"{i}, {i + 100}") for i in range(MAX_CONFLICTS + 3)]
    text = read_page_text(replace(TRAINING, sentences_read=1_000_000, conflicts=conflicts))
    assert "on 1,200 sentences, drawn by a hash from 1,000,000. F1" in text
    assert "The same words with different labels: at least one version of each is wrong." in text
    assert text.count("Velorin <script>") == MAX_CONFLICTS
    assert "0, 100" in text
    assert "3 more." in text


def test_data_is_never_markup() -> None:
    judge = make_judge()
    summary = AuditSummary(judge.classes)
    fields = {
        "id": HOSTILE_MARKUP + HOSTILE_ATTRIBUTE,
        "source": HOSTILE_MARKUP + HOSTILE_ATTRIBUTE,
        "annotator": HOSTILE_MARKUP + HOSTILE_ATTRIBUTE,
    }
    tokens = f"{HOSTILE_MARKUP} {HOSTILE_ATTRIBUTE} <b>bold</b> &amp; x"
    summary.add(*assess_sentence(tokens, "O B-LOC O O O", "B-PER O O O O", judge=judge, fields=fields))
    html = render_page(
        summary,
        make_metadata(
            sources=[HOSTILE_MARKUP],
            model=HOSTILE_MARKUP,
            fingerprint=HOSTILE_MARKUP,
            method=HOSTILE_MARKUP,
            token_score=HOSTILE_MARKUP,
        ),
    )
    checker = parse_page(html)
    assert {tag for tag, _ in checker.tags} & {"script", "iframe", "object", "img", "link"} == set()
    assert "<script" not in html
    assert not any(name.startswith("on") for _, attributes in checker.tags for name in attributes)
    text = "".join(checker.text)
    assert HOSTILE_MARKUP in text
    assert HOSTILE_ATTRIBUTE in text
    assert "<b>bold</b>" in text
    assert "&amp;" in text


def test_class_names_are_never_markup() -> None:
    label = "B-<i>X</i>"
    judge = make_judge(classes=("O", label, "I-<i>X</i>"))
    summary = AuditSummary(judge.classes)
    assert "<i>X</i>" not in render_page(summary, make_metadata())


def test_the_page_needs_nothing_from_anywhere() -> None:
    html = render_page(summarize(*ALL_KINDS, source="https://example.org/task/1"), make_metadata())
    checker = parse_page(html)
    for tag, attributes in checker.tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "embed", "base", "form", "video", "audio"}
        for name in ("src", "srcset", "action", "data", "xlink:href", "background", "poster"):
            assert name not in attributes
        if "href" in attributes:
            assert str(attributes["href"]).startswith("#")
            assert str(attributes["href"])[1:] in checker.ids
    style = html[html.index("<style>") : html.index("</style>")]
    assert not re.search(r"url\(|@import|@font-face|https?:|expression|</", style)
    (policy,) = [a["content"] for tag, a in checker.tags if tag == "meta" and "http-equiv" in a]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_labels_of_inputs_and_regions_exist() -> None:
    checker = parse_page(render_page(summarize(*ALL_KINDS), make_metadata()))
    for _, attributes in checker.tags:
        for name in ("for", "aria-labelledby"):
            if name in attributes:
                assert attributes[name] in checker.ids
    assert [tag for tag, _ in checker.tags if tag == "h1"] == ["h1"]
    for tag, attributes in checker.tags:
        if tag == "svg":
            assert attributes.get("aria-hidden") == "true" or attributes.get("aria-label")


def test_names_for_screen_readers_are_where_they_count() -> None:
    html = render_page(summarize(*ALL_KINDS), make_metadata())
    named = [(tag, a) for tag, a in parse_page(html).tags if "aria-label" in a]
    assert any(tag == "span" for tag, _ in named)
    assert {tag for tag, a in named if a.get("role") != "img"} == {"nav"}
    assert html.count('class="arrow"') == html.count('class="arrow" role="img" aria-label="should be"')


def test_lists_of_definitions_hold_nothing_else() -> None:
    html = render_page(summarize(*ALL_KINDS), make_metadata(rejected=1))
    lists = re.findall(r"<dl.*?</dl>", html, re.DOTALL)
    assert len(lists) == 2
    for inner in lists:
        assert re.fullmatch(
            r"<dl[^>]*>\s*(<div[^>]*><dt>[^<]*</dt><dd>((?!</dd>).)*</dd></div>\s*)+</dl>", inner, re.DOTALL
        )


def test_a_sentence_of_any_length_makes_a_page_of_bounded_size() -> None:
    n = 5_000
    given = ["O"] * n
    read = ["O"] * n
    for index in (1_000, 3_000):
        read[index] = "B-LOC"
    html = render_page(
        summarize((" ".join(f"w{i}" for i in range(n)), " ".join(given), " ".join(read))), make_metadata()
    )
    text = "".join(parse_page(html).text)
    assert "w980 " in text
    assert "w1020 " in text
    assert "w979 " not in text
    assert "w1021 " not in text
    assert re.findall(r"([\d,]+) words left out", html) == ["980", "1,959", "1,979"]
    assert len(html) < 100_000

    every = summarize((" ".join(["x" * 5_000] * n), " ".join(["B-PER"] * n), " ".join(["O", "B-LOC"] * (n // 2))))
    html = render_page(every, make_metadata())
    assert re.search(r"<li>[\d,]+ more</li>\s*</ul>", html)
    assert html.count('<li><span class="kind">') == 12
    assert len(html) < 250_000


def test_a_long_sentence_without_doubts_is_shown_around_its_worst_word() -> None:
    html = render_page(summarize((" ".join(f"w{i}" for i in range(200)), "O " * 200, "O " * 200)), make_metadata())
    assert html.count('class="w') - html.count('class="words') == 21
    whole = render_page(summarize((" ".join(f"w{i}" for i in range(120)), "O " * 120, "O " * 120)), make_metadata())
    assert 'class="gap"' not in whole
    assert "<bdi>w119</bdi>" in whole


def test_a_long_entity_is_quoted_in_part_and_named_where_it_is_cut() -> None:
    n = 300
    given = " ".join(["B-LOC", *["I-LOC"] * (n - 1)])
    read = " ".join(["B-LOC", *["I-LOC"] * 199, *["O"] * (n - 200)])
    html = render_page(summarize((" ".join(f"w{i}" for i in range(n)), given, read)), make_metadata())
    text = "".join(parse_page(html).text)
    assert "w10 w11 …”" in text
    assert "w12" not in text
    assert "<bdi>w180</bdi>" in html
    first = html[html.index('class="gap"') : html.index("<bdi>w180</bdi>")]
    assert ">LOC</i>" in first


def test_an_audit_that_found_nothing() -> None:
    for summary in (AuditSummary(CLASSES), summarize(("all is well", "O O O", "O O O"))):
        text = "".join(parse_page(render_page(summary, make_metadata(stream=True))).text)
        assert "No label is doubted" in text
    assert "There was no sentence to judge." in render_page(AuditSummary(CLASSES), make_metadata())


def test_scores_that_are_counts_give_way_to_priority() -> None:
    judge = make_judge(method="bad-token-counts")
    summary = AuditSummary(judge.classes)
    summary.add(*assess_sentence("Ann saw Bo", "O O O", "B-PER O B-PER", judge=judge))
    html = render_page(summary, make_metadata(method="bad-token-counts"))
    assert "Histogram of the priority of 1 sentence" in html


def test_many_classes_are_cut_to_those_with_doubts() -> None:
    classes = ("O", *(f"{prefix}-T{n}" for n in range(40) for prefix in "BI"))
    summary = AuditSummary(classes)
    summary.noise[0, 80] = 3
    summary.noise[0, 0] = 100
    html = render_page(summary, make_metadata())
    parse_page(html)
    table = html[html.index('<table class="noise">') :]
    table = table[: table.index("</table>")]
    assert table.count("<tr>") == MAX_CLASSES + 1
    assert "I-T39" in table
    assert "57 classes with fewer doubts left out." in html


def render_words(tokens: str, given: str, read: str) -> str:
    """The words of the only sentence of a page."""
    html = render_page(summarize((tokens, given, read)), make_metadata())
    (words,) = re.findall(r'<p class="words">(.*?)</p>', html, re.DOTALL)
    return str(words)


def test_spans_above_and_below() -> None:
    html = render_words("In New York Bay", "O B-LOC I-LOC O", "O B-LOC I-LOC I-LOC")
    cells = re.findall(r"<(mark|span) class=\"w([^\"]*)\".*?<i class=\"g([^\"]*)\".*?<i class=\"s([^\"]*)\"", html)
    assert [cell[0] for cell in cells] == ["span", "span", "span", "mark"]
    assert [cell[2].split() for cell in cells] == [[], ["on", "t0", "first", "spill"], ["on", "t0", "last"], []]
    assert [cell[3].split() for cell in cells] == [
        [],
        ["on", "t0", "first", "spill"],
        ["on", "t0"],
        ["on", "t0", "last"],
    ]
    assert html.count('aria-hidden="true">LOC<') == 2
    assert "given O: 0.7" in html
    assert "suggested I-LOC: 97.0" in html


def test_words_of_one_entity_have_no_space_between_them() -> None:
    html = render_words("In New York Bay", "O B-LOC I-LOC O", "O B-LOC I-LOC O")
    assert re.sub(r"<i [^>]*>[^<]*</i>|</?bdi>|</?span[^>]*>", "", html) == "In NewYork Bay "


def test_what_should_be_no_entity_says_so_below() -> None:
    html = render_words("the port chamber", "O B-LOC I-LOC", "O O O")
    assert re.findall(r"<i class=\"s([^\"]*)\"[^>]*>([^<]*)", html) == [
        ("", ""),
        (" on tn first spill", "no entity"),
        (" on tn last", ""),
    ]


def test_labels_no_scheme_can_read_are_shown_word_by_word() -> None:
    assert parse_given_spans(["B-PER", "I-PER", "odd"], Scheme.IOB2) == [
        Span(0, 1, "B-PER"),
        Span(1, 2, "I-PER"),
        Span(2, 3, "odd"),
    ]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.00004, "< 0.01 %"),
        (0.99999, "> 99.99 %"),
        (0.0042, "0.42 %"),
        (0.123, "12.3 %"),
        (0.9951, "99.51 %"),
    ],
)
def test_percentages_differ_from_0_and_100(share: float, text: str) -> None:
    assert format_percent(share).replace("\u202f", " ") == text


def test_numbers() -> None:
    assert format_score(None) == "–"
    assert format_score(0.25) == "0.250"
    assert format_score(0.00031).replace("\u202f", " ") == "3.1 · 10⁻⁴"
    assert format_score(3e-12).replace("\u202f", " ") == "3.0 · 10⁻¹²"
    assert format_score(0.9995) == "0.9995"
    assert format_score(1.0) == "1.000"
    assert (pluralize(1, "word"), pluralize(2000, "word"), pluralize(2, "class", "classes")) == (
        "1 word",
        "2,000 words",
        "2 classes",
    )


def test_characters_that_html_forbids_are_made_visible() -> None:
    forbidden, visible = "a\0b\x1bc\x85\uffff<", "a␀b␛c\ufffd\ufffd<"
    assert show_control_chars(forbidden) == visible
    summary = summarize(("a\0\x1b\uffff<", "O", "B-PER"), source=forbidden)
    html = render_page(summary, make_metadata(sources=[forbidden]))
    assert html.count("a␀b␛c\ufffd\ufffd&lt;") == 3  # title, heading and source
    assert html.count("a␀␛\ufffd&lt;") == 3  # the word, its doubt and the example of the kind
    assert not re.search("[\x00\x1b\x85\uffff]", html)


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(theme: str) -> None:
    """WCAG AA: 4.5 to 1 between every text colour and its background."""
    style = files("service.audit.report").joinpath("page.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light if theme == "light" else dark))
    text_on = [(name, "paper") for name in ("ink", "muted", "doubt", "fix", *(f"t{n}" for n in range(8)))]
    text_on += [
        ("ink", "doubt-soft"),
        ("ink", "h1"),
        ("ink", "h2"),
        ("ink", "h3"),
        ("on-heat", "h4"),
        ("on-heat", "h5"),
    ]
    text_on += [("paper", "ink")]
    contrasts = {(text, ground): _contrast(colours[text], colours[ground]) for text, ground in text_on}
    assert {pair: contrast for pair, contrast in contrasts.items() if contrast < 4.5} == {}
    assert _contrast(colours["bar"], colours["doubt"]) > 1.5
    # Marks that carry meaning need 3 to 1.
    assert _contrast(colours["bar"], colours["paper"]) >= 3
