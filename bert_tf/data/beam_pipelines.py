"""Pipelines on Apache Beam (extra `beam`): engines by Beam's flags, retries, errors in a line."""

import contextlib
import io
import logging
import os
import re
import shlex
import sys

from bert_tf.errors import BertTfError, UsageError, explain

_silence = logging.NullHandler()
logging.root.addHandler(_silence)  # Beam warns at its import of optional packages
import apache_beam as beam  # noqa: E402
from apache_beam.options.pipeline_options import (  # noqa: E402
    DirectOptions,
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners import create_runner  # noqa: E402
from apache_beam.runners.portability.fn_api_runner import FnApiRunner  # noqa: E402
from apache_beam.transforms.environments import SubprocessSDKEnvironment  # noqa: E402

logging.root.removeHandler(_silence)

_ATTEMPTS = 3  # of the engine on one machine, which does not retry by itself


def runner_of(flags):
    """Return a function that runs pipelines.

    Args:
        flags: Beam's own, such as `["--runner=FlinkRunner", "--flink_master=host:8081"]`. Without
            a runner Beam's engine for one machine is used.

    Returns:
        function `(build, num_workers, progress)`, which runs what `build` adds to a pipeline,
        again where a worker was lost: what was finished is to be kept, and what is done again to
        change nothing. With `progress` retries are reported on standard error. It raises
        BertTfError: one of a worker's, the disk is full, a worker or the job died.

    Raises:
        UsageError: Beam does not understand a flag.
    """
    options = _options(flags)

    def run(build, num_workers, progress):
        is_local = options.view_as(StandardOptions).runner is None
        for attempts in range(_ATTEMPTS if is_local else 1, 0, -1):
            pipeline = beam.Pipeline(_local_runner(options, num_workers) if is_local else None,
                                     options)
            build(pipeline)
            try:
                with _silent() if is_local else contextlib.nullcontext():
                    _wait(pipeline.run())
                return
            except Exception as error:
                ours = _ours(error)
                if ours or attempts == 1:
                    raise ours or BertTfError(explain(
                        f"Beam failed: {_last_line(_text(error))} (finished shards are kept)",
                        attempt="the same command again")) from error
                if progress:
                    print(f"Beam: {_last_line(_text(error))} Missing shards are made again.",
                          file=sys.stderr)

    return run


def one_thread():
    """Let TensorFlow use one core in this worker: Beam runs as many workers as there are cores."""
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):  # TensorFlow is at work in this process already
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def _options(flags):
    """Return Beam's options from its flags; without a runner none may be unknown."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            options = PipelineOptions(list(flags))
            known = options.get_all_options()
            unknown = set(options.get_all_options(retain_unknown_options=True)) - set(known)
        if known["runner"]:  # whose engine may know further flags
            create_runner(known["runner"])
            unknown = ()
    except SystemExit as error:
        if not error.code:  # of --help, which is printed
            raise UsageError(explain("Beam's flags: --help", "flags of a pipeline")) from error
        line = _last_line(printed.getvalue()).split("error: ")[-1]
        raise UsageError(f"Beam's flags: {line}") from error
    except ValueError as error:
        raise UsageError(f"Beam's flags: {error}") from error
    if unknown:
        raise UsageError(explain(f"Beam has no flag --{sorted(unknown)[0]}",
                                 attempt="--runner=…, whose engine may have it"))
    return options


def _local_runner(options, num_workers):
    """Return Beam's engine for one machine, with processes of ours as workers.

    It is the one that DirectRunner uses, which would first fetch another one's binary.
    """
    if num_workers == 1:
        return FnApiRunner()
    options.view_as(DirectOptions).direct_num_workers = num_workers
    # Beam gives it to a shell.
    command = shlex.join(["exec", sys.executable, "-m", f"{__package__}.beam_worker",
                          str(os.getpid())])
    return FnApiRunner(default_environment=SubprocessSDKEnvironment.from_command_string(command))


@contextlib.contextmanager
def _silent():
    """Silence Beam's logs: errors of workers are raised here, so they need not be logged as
    well."""
    loggers = [logging.getLogger(name) for name in ("apache_beam", "grpc")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _wait(result):
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        with contextlib.suppress(Exception):  # a runner need not know how
            result.cancel()
        raise


def _ours(error):
    """Return our error in a worker, which comes as text inside one of Beam's; None where there is
    none."""
    kinds = _kinds(BertTfError)
    found = re.findall(rf"\b({'|'.join(kinds)}): (.*)", _text(error))
    if not found:
        return None
    kind, message = found[-1]
    return kinds[kind](re.sub(r" \[while running .*", "", message))


def _kinds(kind):
    """Return `{name: kind}` of a kind of errors and all below it; of one that is made of more than
    a message, the kind above."""
    kinds = {kind.__name__: kind.__base__ if "__init__" in vars(kind) else kind}
    for each in kind.__subclasses__():
        kinds |= _kinds(each)
    return kinds


def _text(error):
    """Return what Beam reports: a worker's traceback, or the error itself where that worked
    in-process."""
    return f"{type(error).__name__}: {error}"


def _last_line(text):
    return [line for line in text.splitlines() if line.strip()][-1].strip()
