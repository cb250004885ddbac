"""Fixtures that every room uses."""

import functools
import gc
import gzip
import os
import pathlib
import random
import signal

# Begun in the background of a script the tests would ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Each process of the tests has a core; more threads would wait for each other's.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As on two cores: an operation that a test holds back leaves a thread for others on one core, too.
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")
# The kernels of the commands, which some tests run in processes of their own.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Tests of tf-models-official need Keras 2 beside Keras 3; both find their own backend.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import pytest  # noqa: E402

# Tracing makes millions of objects that live on; looking through them again and again takes long.
gc.set_threshold(100_000, 20, 100)

SHARED = pathlib.Path(__file__).resolve().parents[2] / "shared"
# Folders whose files share exports and servers: one process makes them, once.
TOGETHER = ("tests/saved_model/", "tests/serving/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file's tests go to one process, those of a folder in `TOGETHER` too."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return next((folder for folder in TOGETHER if nodeid.startswith(folder)),
                        super()._split_scope(nodeid))

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """What Keras draws without a seed depends on the test alone, not on those before it."""
    random.seed(item.nodeid)


@pytest.fixture(scope="session")
def shared():
    """Folder of real data and numeric references beside the checkout; the test skips without."""
    if not (SHARED / "reference").is_dir():
        pytest.skip("../shared with real data and numeric references is absent")
    return SHARED


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """A folder that all processes of one run of the tests share, for what takes long to make."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "made_once"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium, as of Playwright; the test skips where there is none."""
    from browser import CHROMIUM, PATIENCE

    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium, or name it in CHROMIUM")
    with playwright.sync_playwright() as driver:
        # Root, as in containers, has no sandbox.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"],
                                         timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="session", autouse=True)
def two_virtual_devices():
    """Two CPU devices in one process, so that MirroredStrategy has two replicas."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.fixture(scope="session", autouse=True)
def seeded(two_virtual_devices):
    """A seed: a run in the same process asks for determinism, under which `fit` wants one."""
    import tensorflow as tf

    tf.random.set_seed(1)


@pytest.fixture
def eager():
    """Functions run operation by operation: a few steps of a tiny model sooner than it is traced.

    For tests of what goes on around steps, not of steps.
    """
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module", autouse=True)
def graphs_as_written(request, two_virtual_devices):
    """Graphs run as they are written, but in modules with the mark `graphs_improved` and among
    the tests marked `long`.

    Improving a graph, as TensorFlow does for users, takes longer than the few times it runs.
    """
    import tensorflow as tf

    improved = (request.config.option.markexpr != "not long"
                or request.node.get_closest_marker("graphs_improved") is not None)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not improved})


@pytest.fixture(scope="session", autouse=True)
def operations_without_stacks():
    """An operation of a graph keeps no Python stack: of tests they are deep, and slow tracing."""
    from tensorflow.python.framework import ops

    ops._create_c_op = functools.partial(ops._create_c_op, extract_traceback=False)


@pytest.fixture(scope="module", autouse=True)
def forget_gradients():
    """Drops what TensorFlow keeps for ever, the graphs around custom gradients.

    They are a hundred megabytes for every SavedModel, 12 GB for all tests of one process. What is
    left is there to stay: looking through it after every module would take minutes.
    """
    from tensorflow.python.framework import ops

    registry = ops.gradient_registry._registry
    before = set(registry)
    yield
    for name in set(registry) - before:
        if name.startswith("CustomGradient-"):
            del registry[name]
    gc.collect()
    gc.freeze()


@pytest.fixture
def write_file(tmp_path):
    """Function that writes text or bytes, compressed for a name in `.gz`: the path."""
    def write(name, text):
        data = text if isinstance(text, bytes) else text.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)
    return write
