"""Lines of text from bytes: UTF-8, UTF-16 by its byte order mark, or what the user says it is."""

import codecs
import gzip
import zlib

from bert_tf.errors import BertTfError, explain

_MARK = "\ufeff"
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# UTF-16 and UTF-32 show a byte 0x00 in the first characters; Cyrillic or Thai in UTF-16, all of
# which is UTF-8 too, in one of 200 at least, as blanks and line ends have one. Some may be text.
_BEGIN, _SELDOM, _SOME = 4, 200, 50


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
                raise self._wide(text)
        self._pass(text)
        return text

    def _pass(self, text):
        lines = text.count("\n")
        self.line += lines
        self.column = len(text) - text.rfind("\n") if lines else self.column + len(text)

    def _wrong(self, error):
        self._pass(error.object[:error.start].decode(self.name, "replace").removeprefix(_MARK))
        return self._refused(error.object[error.start], f"not {self.name.upper()}",
                             "CP949" if _is_korean(error.object) else None)

    def _wide(self, text):
        """Return the error of UTF-16 without a BOM or UTF-32, which may be valid UTF-8."""
        before = text[:text.index("\0")]
        self._pass(before)
        likely = "UTF-32"  # whose BOM begins like that of UTF-16
        if self.name == "utf-8":
            likely = "UTF-32" if "\0\0" in text[:_BEGIN] else "UTF-16"
            ends = len(before.encode(errors="surrogateescape")) % 2  # 0x00 ends an ASCII character
            likely += "LE" if ends or before and likely == "UTF-32" else "BE"
        return self._refused(0, "no text", likely)

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
    number, rest, decoder = 0, "", None
    try:
        while data := stream.read(block_size):
            if decoder is None:
                decoder = Decoder(path, data, encoding, errors)
            lines, newline, tail = decoder.decode(data).rpartition("\n")
            if newline:
                block = _split_lines(rest + lines)
                rest = tail
                number += len(block)
                yield block
            else:
                rest += tail
        if decoder is not None:
            rest += decoder.decode(b"", final=True)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BertTfError(f"{path} after line {number}: damaged gzip: {error}") from error
    if rest:
        yield _split_lines(rest)


def _split_lines(text):
    lines = text.split("\n")
    return [line.rstrip("\r") for line in lines] if "\r" in text else lines


def _is_korean(data):
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
