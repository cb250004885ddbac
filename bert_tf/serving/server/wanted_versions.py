"""Which versions a configuration wants: what it may say, and what is in the models' folders.

As in TensorFlow Serving: `model_servers/server_core.cc`, `sources/storage_path/
file_system_storage_path_source.cc`.
"""

import itertools
import os
import re

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.wire.messages import error, quoted
from bert_tf.storage import files

PLATFORM = "tensorflow"
_INT64 = re.compile(r"[+-]?\d{1,19}")


def checked_configs(model_config):
    """`{name: ModelConfig}` of a `ModelServerConfig` (`ServerCore::ReloadConfig`).

    Raises:
        ServingError: a model is listed twice or has no name, or its path or platform is not taken.
    """
    if model_config.WhichOneof("config") == "custom_model_config":
        raise error("not_a_list")
    configs = {}
    for one in model_config.model_config_list.config:
        if not one.name:
            raise error("nameless", path=one.base_path)
        if one.name in configs:
            raise error("listed_twice", name=one.name)
        configs[one.name] = one
    for one in configs.values():
        if not os.path.isabs(one.base_path) and not files.is_remote(one.base_path):
            raise error("relative_path", name=one.name, path=one.base_path)
        if files.is_remote(one.base_path):
            try:
                files.absolute(one.base_path)  # with credentials, it would be logged
            except UsageError as problem:
                raise quoted("INVALID_ARGUMENT", f"model {one.name}: {problem}") from problem
        if (one.model_platform, one.model_type) not in ((PLATFORM, 0), ("", 1)):  # 1: TENSORFLOW
            raise error("platform", name=one.name, platform=" and ".join(
                map(str, filter(None, (one.model_platform, one.model_type)))) or "not given")
    return configs


def check_roots(model_config, roots):
    """Refuse a configuration that cannot be, or has base paths not below one of `roots`.

    Links count as what they lead to.
    """
    for one in checked_configs(model_config).values():
        if not any(_is_below(one.base_path, root) for root in roots):
            raise error("not_below_roots", name=one.name)


def _is_below(path, root):
    if files.is_remote(path) or files.is_remote(root):
        return path.startswith(root.rstrip("/") + "/") and ".." not in path.split("/")
    try:
        root = os.path.realpath(root)
        return os.path.commonpath([root, os.path.realpath(path)]) == root
    except ValueError:  # a relative path, or one that cannot be
        return False


def find_versions(configs):
    """`{model: {number: path}}`, or in place of the versions what is wrong with the folder."""
    return {name: _find(one) for name, one in configs.items()}


def _find(model_config):
    """The versions of a model that its policy wants."""
    folder = model_config.base_path
    try:
        if not files.is_remote(folder):
            return _wanted(model_config, os.listdir(folder), lambda path: True)
        # On a disk a version has its name once it is whole, in a store from its first file on.
        return _wanted(model_config, files.list_folder(folder), files.is_whole)
    except (OSError, ValueError, BertTfError) as problem:  # such as of a zero byte in the path
        return (f"Could not find base path {folder} for servable {model_config.name} with error "
                f"{getattr(problem, 'strerror', problem)}")


def _wanted(model_config, names, is_whole):
    """Of the `names` in a model's folder the versions that the policy wants and that are whole."""
    found = {int(name): os.path.join(model_config.base_path, name) for name in sorted(names)
             if name.isascii() and _INT64.fullmatch(name) and -2**63 <= int(name) < 2**63}
    policy = model_config.model_version_policy
    choice = policy.WhichOneof("policy_choice")
    numbers, most = sorted(found, reverse=True), len(found)
    if choice == "specific":
        numbers = [number for number in policy.specific.versions if number in found]
    elif choice != "all":
        most = max(1, policy.latest.num_versions)
    whole = (number for number in numbers if is_whole(found[number]))
    return {number: found[number] for number in itertools.islice(whole, most)}
