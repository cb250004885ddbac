"""Whether the processor is known to lack what products of int8 need."""

import pytest

from bert_tf.storage import processor


@pytest.mark.parametrize(("line", "lacks"), [
    ("flags\t\t: fpu avx2 fma", True), ("flags\t\t: fpu avx2 avx_vnni", False),
    ("flags\t\t: fpu avx512f avx512_vnni", False), ("Features\t: fp asimd", False), (None, False)])
def test_what_linux_tells_decides(tmp_path, monkeypatch, line, lacks):
    if line is not None:
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\n")
    monkeypatch.setattr(processor, "_CPU_INFO", str(tmp_path / "cpuinfo"))
    assert processor.lacks_vnni() == lacks
