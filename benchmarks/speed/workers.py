"""The sides of a benchmark of speed as processes that stay alive and take turns.

All start at once and then wait; one works at a time, so that a round has a turn of everyone's and
what the machine does meanwhile meets all sides alike.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BENCHMARKS = HERE.parent
REST = 0.05  # seconds in which threads that look out for more work of the last turn go to sleep

# The file of a side, and whether it needs the other interpreter, that of --hf_python.
SIDES = {
    "bert_tf": ("speed/ours.py", False),
    "products": ("speed/products.py", False),
    "keras-nlp": ("peers/keras_nlp_bert.py", False),
    "tf-models-official": ("peers/tf_models_bert.py", False),
    "transformers": ("peers/hf_bert.py", True),
    "OpenVINO": ("peers/openvino_bert.py", True),
    "ONNX Runtime": ("peers/onnx_bert.py", True),
    "sentence-transformers": ("peers/sentence_encoder.py", True),
    "sentence-transformers int8": ("peers/sentence_int8.py", True),
}


def add_flags(parser):
    """The flags that all of these benchmarks have."""
    add = parser.add_argument
    add("--hf_python", metavar="PYTHON", help="interpreter with torch, transformers, openvino, "
        "sentence-transformers, for int8 with its extras onnx and openvino, nncf and datasets; "
        "peers without theirs are left out")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
        help="of every side (default: the cores there are)")
    peers = [side for side in SIDES if side not in ("bert_tf", "products")]
    add("--without", nargs="+", default=[], choices=peers, metavar="PEER",
        help=f"leave out; of {', '.join(peers)}")


def thread_limits(threads):
    """The variables that tell TensorFlow, PyTorch, OpenVINO and tokenizers of Rust to have so many
    threads."""
    return dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS",
                          "RAYON_NUM_THREADS"), str(threads))


class Workers:
    """A process for each side; to be used in `with`.

    Args:
        kind: of the work, a key of `worker.WORK`.
        sides: `{name: arguments}` of the work's constructor; a name is that of a side, or that
            and something behind a comma.
        arguments: the flags of `add_flags`.

    Attributes:
        versions: `{side: {package: version}}` of those that run.
        left_out: `{side: why}`.
    """

    def __init__(self, kind, sides, arguments):
        self.versions, self.left_out, self._processes = {}, {}, {}
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 — as long as the workers
        environment = {**os.environ, **thread_limits(arguments.threads),
                       "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow",
                       "HF_HUB_OFFLINE": "1",
                       "PYTHONPATH": os.pathsep.join((str(BENCHMARKS.parent), str(BENCHMARKS)))}
        for name, options in sides.items():
            side = name.partition(",")[0]
            path, is_other = SIDES[side]
            python = arguments.hf_python if is_other else sys.executable
            if side in arguments.without:
                self.left_out[name] = "as --without says"
            elif python is None:
                self.left_out[name] = "there is no --hf_python"
            else:
                self._processes[name] = subprocess.Popen(
                    [python, str(HERE / "worker.py"), kind, str(BENCHMARKS / path),
                     json.dumps(options)], env=environment, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=self._log, text=True)

    def __enter__(self):
        for name in list(self._processes):
            told = self._answer(name)
            if "missing" in told:
                self.left_out[name] = f"there is no module {told['missing']}"
                self._processes.pop(name).wait()
            else:
                self.versions[name] = told["result"]
        for name, why in self.left_out.items():
            print(f"{name} is left out: {why}")
        return self

    def __exit__(self, *_):
        for process in self._processes.values():
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for process in self._processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        self._log.close()

    @property
    def names(self):
        """Those that run, in order."""
        return list(self.versions)

    def ask(self, side, method, /, **arguments):
        """What a method of a worker gives."""
        process = self._processes[side]
        time.sleep(REST)
        with contextlib.suppress(BrokenPipeError):  # said below
            process.stdin.write(json.dumps({"method": method, "arguments": arguments}) + "\n")
            process.stdin.flush()
        return self._answer(side)["result"]

    def _answer(self, name):
        line = self._processes[name].stdout.readline()
        told = json.loads(line) if line else {
            "error": f"it ended with {self._processes[name].wait()}"}
        if "error" in told:
            self._log.seek(0)
            sys.exit(f"{''.join(self._log.readlines()[-30:])}\n{name}: {told['error']}")
        return told
