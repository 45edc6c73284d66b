"""Words are text, never HTML. Keys are requested, stored in the tab, and their role is respected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
from playwright.sync_api import expect

from service.api.routes.console import CONTENT_SECURITY_POLICY
from tests.browser.harness import (
    BrowserHarness,
    find_browser_arguments,
    find_chromium,
    run_service,
    take_screenshot,
    wait_for,
)

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

FOREIGN_NAME = "rebound.example.com"
HOSTILE = [
    "<img src=x onerror=\"document.title='hacked'\">",
    "<script>document.title='hacked'</script>",
    "&lt;b&gt;",
    "</bdi><svg/onload=alert(1)>",
    "\u202egnp.exe",
    "\u0007bell",
    "W" * 400,
]


def test_hostile_words_stay_words(harness: BrowserHarness) -> None:
    bad = harness.service.flagged_sentences[0]
    harness.service.send(
        {
            "tokens": [*bad["tokens"], *HOSTILE],
            "labels": [*bad["labels"], *["O"] * len(HOSTILE)],
            "dataset": "hostile",
            "id": "<b>id</b>/../x?y#z",
            "annotator": "<i onclick=alert(1)>eve</i>",
            "source": "javascript:alert(1)",
        }
    )
    wait_for(lambda: harness.service.list_items("hostile"), "the hostile sentence")
    page = harness.open_page("#/queue?dataset=hostile")
    expect(page.locator(".item-title")).to_have_text("hostile / <b>id</b>/../x?y#z")
    words = page.locator(".words bdi")
    expect(words.nth(len(bad["tokens"]))).to_have_text(HOSTILE[0])
    expect(words.nth(len(bad["tokens"]) + 5)).to_have_text("\u2407bell")
    expect(page.locator(".facts")).to_contain_text("<i onclick=alert(1)>eve</i>")
    expect(page.locator(".facts")).to_contain_text("javascript:alert(1)")
    assert page.locator("main img, main script, main a[href^='javascript'], main svg[onload]").count() == 0
    assert page.title() == "labelwatch review"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("e")
    name = harness.service.list_items("hostile", state="all")[0]["id"]
    wait_for(lambda: harness.service.list_items("hostile", state="decided"), "the decision")
    assert name == "<b>id</b>/../x?y#z"
    page.goto(f"{harness.service.address}/#/overview?dataset=hostile")
    expect(page.locator("#annotators")).to_contain_text("<i onclick=alert(1)>eve</i>")
    assert page.title() == "labelwatch overview"


def test_no_script_can_be_put_into_the_page(harness: BrowserHarness) -> None:
    page = harness.open_page()
    expect(page.locator("#live")).to_have_text("Live")
    stopped = page.evaluate(
        "() => { try { document.body.innerHTML = '<p>x</p>'; return 'written' } catch (error) { return error.name } }"
    )
    assert stopped == "TypeError"
    assert any("TrustedHTML" in complaint for complaint in harness.console_errors)
    harness.console_errors.clear()
    answer = httpx.get(f"{harness.service.address}/")
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY


def test_the_key_is_asked_for_once_and_stored_in_the_tab(harness: BrowserHarness) -> None:
    harness.expected_statuses = {401}
    page = harness.open_page(key=None, reviewer=None)
    box = page.get_by_role("dialog")
    expect(box).to_contain_text("This service needs a key")
    page.get_by_role("textbox", name="Key").fill("lw_wrong")
    page.keyboard.press("Enter")
    expect(box.get_by_role("alert")).to_contain_text("this key is not known")
    page.get_by_role("textbox", name="Key").fill(harness.service.write_key)
    page.keyboard.press("Enter")
    expect(page.locator("#reviewer")).to_have_text("team")  # the name of the key: nobody is asked for another
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".entry").first).to_be_visible()
    expect(page.locator("#live")).to_have_text("Live")
    harness.expected_statuses = set()
    page.reload()
    expect(page.locator(".entry").first).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate("Object.keys(localStorage)") == []


def test_a_key_that_only_reads_may_look(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("guarded", 1)
    page = harness.open_page("#/queue?dataset=guarded", key=harness.service.read_key)
    expect(page.locator(".item-title")).to_have_text(f"guarded / {order[0]}")
    notice = page.locator("#read-only")
    expect(notice).to_contain_text("Your key can read everything but can't save decisions")
    for name in ("Error", "OK", "Unsure"):
        expect(page.get_by_role("button", name=name, exact=False).first).to_be_disabled()
    expect(page.get_by_label("Note", exact=True)).to_be_disabled()
    expect(page.locator("[data-choice]").first).to_be_disabled()
    take_screenshot(page, "read-only")
    page.keyboard.press("e")
    expect(page.locator(".toast.wrong")).to_have_text(
        "Your key can only read. To review, use a key with the role reviewer."
    )
    assert not any("/claim" in url or "/decisions" in url for url in harness.requested_urls)
    # With another key the reviewer continues at the same item.
    notice.get_by_role("button", name="Use another key").click()
    page.get_by_role("textbox", name="Key").fill(harness.service.reviewer_keys["Ben"])
    page.keyboard.press("Enter")
    expect(notice).to_be_hidden()
    expect(page.get_by_role("button", name="Error")).to_be_enabled()
    assert harness.service.get_item("guarded", order[0])["decisions"] == []
    page.keyboard.press("e")
    (decision,) = wait_for(lambda: harness.service.get_item("guarded", order[0])["decisions"], "the decision")
    assert decision["reviewer"] == "Ben"


def test_a_reviewer_sees_their_name_and_decides_with_it(harness: BrowserHarness) -> None:
    order = harness.service.fill_queue("named", 1)
    page = harness.open_page("#/queue?dataset=named", reviewer="Ana")
    expect(page.locator("#reviewer")).to_have_text("Ana")
    expect(page.locator("#read-only")).to_be_hidden()
    expect(page.locator(".item-title")).to_have_text(f"named / {order[0]}")
    page.keyboard.press("o")
    (decision,) = wait_for(lambda: harness.service.get_item("named", order[0])["decisions"], "the decision")
    assert (decision["reviewer"], decision.get("recorded_by")) == ("Ana", None)


def test_an_annotators_key_does_not_open_the_queue(harness: BrowserHarness) -> None:
    page = harness.open_page(key=harness.service.annotator_key)
    expect(page.locator("#reviewer")).to_have_text("kim")
    expect(page.locator("#read-only")).to_contain_text("Your key has the role annotator")
    expect(page.locator("#to-queue")).to_be_hidden()
    expect(page.locator("#to-overview")).to_be_hidden()
    take_screenshot(page, "annotator")
    assert not any("/v1/review" in url or "/v1/events" in url for url in harness.requested_urls)
    page.get_by_role("button", name="Use another key", exact=True).click()
    page.get_by_role("textbox", name="Key").fill(harness.service.reviewer_keys["Ben"])
    page.keyboard.press("Enter")
    expect(page.locator("#reviewer")).to_have_text("Ben")
    expect(page.locator(".entry").first).to_be_visible()


def test_without_keys_the_console_asks_for_a_name(browser: Browser, tmp_path: Path) -> None:
    with run_service(tmp_path, keyless=True) as service:
        harness = BrowserHarness(browser, service)
        order = service.fill_queue("looked", 1)
        page = harness.open_page("#/queue?dataset=looked", key=None)
        expect(page.get_by_role("dialog")).to_contain_text("Who is reviewing?")
        page.get_by_role("button", name="Just look around").click()
        expect(page.locator(".item-title")).to_have_text(f"looked / {order[0]}")
        page.keyboard.press("o")
        page.get_by_role("textbox", name="Your name").fill("Zoë <b>")
        page.keyboard.press("Enter")
        decisions = wait_for(lambda: service.get_item("looked", order[0])["decisions"], "the decision")
        assert decisions[0]["reviewer"] == "Zoë <b>"
        expect(page.locator("#reviewer")).to_have_text("Zoë <b>")
        assert page.evaluate("Object.keys(localStorage)") == ["labelwatch.reviewer"]
        harness.close()


def test_without_keys_a_page_under_a_foreign_name_gets_nothing(browser: Browser, tmp_path: Path) -> None:
    """DNS rebinding: the name of an attacker's page leads to the service, so that its requests are of the same origin."""
    ask = "async ([path, options]) => (await fetch(path, options)).status"
    write = {"method": "PUT", "headers": {"Content-Type": "application/json"}, "body": "{}"}
    with run_service(tmp_path, sample=False, keyless=True) as service:
        port = httpx.URL(service.address).port
        arguments = [
            *find_browser_arguments(),
            f"--host-resolver-rules=MAP {FOREIGN_NAME} 127.0.0.1",
            "--disable-features=LocalNetworkAccessChecks",  # which not every browser has
        ]
        rebound = browser.browser_type.launch(executable_path=find_chromium(), args=arguments)
        try:
            page = rebound.new_page()
            page.route("**/trap", lambda route: route.fulfill(body="<p>", content_type="text/html"))  # the attacker's
            page.goto(f"http://{FOREIGN_NAME}:{port}/trap")
            assert page.evaluate(ask, ["/v1/datasets", {}]) == 403
            assert page.evaluate(ask, ["/v1/datasets/x", write]) == 403
            page.goto(f"http://localhost:{port}/trap")
            assert page.evaluate(ask, ["/v1/datasets", {}]) == 200
            assert page.evaluate(ask, ["/v1/datasets/x", write]) == 201
        finally:
            rebound.close()
