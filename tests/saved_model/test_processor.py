"""Whether the processor is known to lack what products of int8 need."""

import pytest

from bert_tf.saved_model import processor


@pytest.mark.parametrize(("machine", "flags", "lacks"), [
    ("x86_64", "fpu avx2 fma", True), ("x86_64", "fpu avx2 avx_vnni", False),
    ("x86_64", "fpu avx512f avx512_vnni", False), ("aarch64", "fp asimd", False),
    ("x86_64", None, False)])
def test_what_the_kernel_tells_decides(tmp_path, monkeypatch, machine, flags, lacks):
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    monkeypatch.setattr(processor, "_CPU_INFO", str(tmp_path / "cpuinfo"))
    monkeypatch.setattr(processor.platform, "machine", lambda: machine)
    assert processor.lacks_vnni() == lacks
