"""A page as one HTML file that works offline and can load nothing from anywhere."""

import base64
import hashlib
import json
import re

from bert_tf.storage import files

# What the page names is put in, in the order in which it names it.
_STYLE = re.compile(r'<link rel="stylesheet" href="([\w-]+\.css)">')
_SCRIPT = re.compile(r'<script src="([\w-]+\.js)"></script>')
_DATA = '<script type="application/json" id="data"></script>'
_POLICY = "<!-- policy -->"


def single_page(folder, name, data):
    """Put a page's style sheets, scripts and data into its HTML.

    Args:
        folder: with the page and what it names: `<link rel="stylesheet" href="….css">` and
            classic scripts `<script src="….js"></script>`. The page has an element
            `<script type="application/json" id="data"></script>` for the data and a comment
            `<!-- policy -->` in its head.
        name: of the HTML file in it.
        data: value for JSON. Text in it stays text, whatever is in it.

    Returns: the HTML, str, with a Content-Security-Policy that allows these very scripts and style
        sheets and nothing else.
    """
    sources = {"script": [], "style": []}

    def inline(kind):
        def replace(match):
            text = f"\n{files.read_text(f'{folder}/{match[1]}')}\n"
            digest = hashlib.sha256(text.encode()).digest()
            sources[kind].append(f"'sha256-{base64.b64encode(digest).decode()}'")
            return f"<{kind}>{text}</{kind}>"
        return replace

    page = files.read_text(f"{folder}/{name}")
    page = _STYLE.sub(inline("style"), page)
    page = _SCRIPT.sub(inline("script"), page)
    allowed = "; ".join(f"{kind}-src {' '.join(hashes)}" for kind, hashes in sources.items())
    policy = (f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; "
              "form-action 'none'")
    page = page.replace(
        _POLICY, f'<meta http-equiv="Content-Security-Policy" content="{policy}">')
    return page.replace(_DATA, _DATA.replace("><", f">{script_json(data)}<"))


def script_json(data):
    """Return JSON that may stand in a script element: nothing in it is HTML, all of it is ASCII."""
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":  # no `</script>`, no `<!--`
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
