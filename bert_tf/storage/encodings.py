"""Lines of text from bytes: UTF-8, UTF-16 by its byte order mark, or what the user says it is."""

import codecs
import contextlib
import gzip
import zlib

from bert_tf.errors import BertTfError, explain

_MARK = "\ufeff"
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# What shows that UTF-16 or UTF-32 is no UTF-8, though it is valid: in the first characters a byte
# 0x00, of English; of Cyrillic or Thai one in 200 characters at least, of a blank or the end of a
# line. Some may be text.
_BEGIN, _SELDOM, _SOME = 4, 200, 50
_SAMPLE = 200  # bytes, in which any text shows one


class EncodingError(BertTfError):
    """Text that is not of the encoding that it was read as; `likely` names one, or is None."""

    def __init__(self, message, likely=None):
        super().__init__(message)
        self.likely = likely


class Decoder:
    """Decodes a file piece by piece.

    Args:
        path: of the file, for messages.
        begin: its first bytes.
        encoding: name of a codec; None is UTF-8, or UTF-16 where the file begins with its BOM.
        errors: Python's name of what becomes of bytes that are not UTF-8, such as
            `surrogateescape`; other encodings are strict.
    """

    def __init__(self, path, begin, encoding=None, errors="strict"):
        self.path = path
        self.guessed = encoding is None
        self.name = encoding or _UTF_16.get(begin[:2], "utf-8")
        self.decoder = codecs.getincrementaldecoder(self.name)(
            errors if self.name == "utf-8" else "strict")
        self.line, self.column = 1, 1  # of what comes next
        self.begun = False

    def decode(self, data, final=False):
        """Decode `data`, the next bytes of the text, without a BOM.

        Raises:
            EncodingError: bytes that are no text; line and column are named.
        """
        try:
            text = self.decoder.decode(data, final)
        except UnicodeDecodeError as error:
            raise self._wrong(error) from error
        if text and not self.begun:
            text, self.begun = text.removeprefix(_MARK), True
            if self.guessed and ("\0" in text[:_BEGIN]
                                 or text.count("\0") > max(_SOME, len(text) // _SELDOM)):
                self._pass(text[:text.index("\0")])
                raise self._refused(0, "no text", _wide(data))
        self._pass(text)
        return text

    def _pass(self, text):
        lines = text.count("\n")
        self.line += lines
        self.column = len(text) - text.rfind("\n") if lines else self.column + len(text)

    def _wrong(self, error):
        self._pass(error.object[:error.start].decode(self.name, "replace").removeprefix(_MARK))
        likely = _wide(error.object) if self.name == "utf-8" else None
        if likely is None and is_korean(error.object):
            likely = "CP949"
        return self._refused(error.object[error.start], f"not {self.name.upper()}", likely)

    def _refused(self, byte, found, likely):
        return EncodingError(explain(
            f"{self.path} line {self.line}: byte {byte:#04x} at column {self.column} is {found}"
            f"{likely and f', but may be {likely}' or ''}",
            attempt=f"converting the file, for example with iconv -f {likely or 'ENCODING'} "
                    "-t UTF-8"), likely)


def line_blocks(stream, path, block_size=1 << 20, encoding=None, errors="strict"):
    """Yield the lines of a binary stream, without their ends, in lists of about `block_size` bytes.

    Args:
        stream: of the file's bytes, decompressed as it is read where it is a `.gz`.
        path, encoding, errors: as of `Decoder`.
        block_size: in bytes.

    Raises:
        BertTfError: damaged gzip; the line number is named.
        EncodingError: as of `Decoder.decode`.
    """
    # A line may be longer than a block: its pieces are joined once, not anew with each.
    number, pieces, decoder = 0, [], None
    try:
        while data := stream.read(block_size):
            if decoder is None:
                decoder = Decoder(path, data, encoding, errors)
            lines, newline, tail = decoder.decode(data).rpartition("\n")
            if newline:
                block = _split_lines("".join([*pieces, lines]))
                pieces.clear()
                number += len(block)
                yield block
            pieces.append(tail)
        if decoder is not None:
            pieces.append(decoder.decode(b"", final=True))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BertTfError(f"{path} after line {number}: damaged gzip: {error}") from error
    if rest := "".join(pieces):
        # Lines of old Macs end with CR alone, where nothing else ends any.
        yield _split_lines(rest if number else rest.removesuffix("\r").replace("\r", "\n"))


def _split_lines(text):
    lines = text.split("\n")
    return [line.rstrip("\r") for line in lines] if "\r" in text else lines


def _wide(data):
    """Name UTF-16 or UTF-32 if bytes begin with text of it, or return None."""
    begin = data[:_SAMPLE]
    if 0 not in begin:
        return None
    # Either order may be valid UTF-16; of ASCII's two bytes the high one is 0.
    end = "LE" if begin[1::2].count(0) > begin[::2].count(0) else "BE"
    for name in ("UTF-32LE", "UTF-32BE", f"UTF-16{end}"):
        with contextlib.suppress(UnicodeDecodeError):
            text = codecs.getincrementaldecoder(name)().decode(begin).removeprefix(_MARK)
            if text and all(each.isprintable() or each.isspace() for each in text):
                return name
    return None


def is_unicode(begin):
    """Return whether the first bytes of a file have a BOM, or are UTF-8 beyond ASCII."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        return begin[:2] in _UTF_16
    return not text.isascii()


def is_korean(data):
    """Return whether bytes are text as Korean Windows writes it: Hangul beside ASCII, hardly
    else."""
    try:
        text = codecs.getincrementaldecoder("cp949")().decode(data)
    except UnicodeDecodeError:
        return False
    foreign = sum(character > "\x7f" for character in text)
    # Only extended codes of CP949 have a second byte that may be ASCII, as other encodings have.
    return 2 * sum("가" <= character <= "힣" and character.encode("cp949")[1] > 0xA0
                   for character in text) > foreign
