"""Pages in headless Chromium, for the fixture `browser`."""

import contextlib
import os
import shutil

# Tests of pages are skipped where there is none: `apt-get install chromium`, or name it here.
CHROMIUM = next(filter(None, (os.environ.get("CHROMIUM"), *map(
    shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome")))), None)
PATIENCE = 300_000  # milliseconds until something that must happen is taken not to


@contextlib.contextmanager
def opened(browser, address, **options):
    """The page at an address, loaded; whatever the browser complains of fails the test.

    So does a request for anything that is not behind that address.

    Args:
        browser: of Playwright.
        address: of the page.
        options: of `browser.new_page`, such as `viewport`.
    """
    complaints = []
    page = browser.new_page(**options)
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: message.type == "error"
            and "status of 4" not in message.text and complaints.append(message.text))
    page.on("request", lambda request: request.url.startswith((address, "data:"))
            or complaints.append(f"asked for {request.url}"))
    page.goto(address)
    yield page
    page.close()
    assert not complaints, complaints


def check_contrast(page, scheme):
    """Text and background are at least 7:1 apart in a colour scheme (WCAG 2.2, 1.4.6)."""
    page.emulate_media(color_scheme=scheme)
    text, ground = _luminances(page)
    assert (max(text, ground) + 0.05) / (min(text, ground) + 0.05) >= 7
    assert (ground > text) == (scheme == "light")


def _luminances(page):
    """Of the page's text and background, 0 to 1 (WCAG 2.2, relative luminance)."""
    colours = page.evaluate("""() => ["color", "backgroundColor"].map((name) =>
        getComputedStyle(document.body)[name].match(/[0-9.]+/g).slice(0, 3).map(Number))""")

    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                  for c in (value / 255 for value in colour)]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    return tuple(map(luminance, colours))
