"""Which versions a configuration wants: what it may say, and what is in the models' folders.

As in TensorFlow Serving: `model_servers/server_core.cc`, `sources/storage_path/
file_system_storage_path_source.cc`.
"""

import itertools
import os
import re
import urllib.parse

from bert_tf import files
from bert_tf.errors import BertTfError
from bert_tf.serving.messages import error

PLATFORM = "tensorflow"
_INT64 = re.compile(r"[+-]?\d{1,19}")


def checked_configs(model_config):
    """`{name: ModelConfig}` of a `ModelServerConfig` (`ServerCore::ReloadConfig`).

    Raises:
        ServingError: a model is listed twice, or its path or platform is not taken.
    """
    if model_config.WhichOneof("config") == "custom_model_config":
        raise error("not_a_list")
    configs = {}
    for one in model_config.model_config_list.config:
        if one.name in configs:
            raise error("listed_twice", name=one.name)
        configs[one.name] = one
    for one in configs.values():
        if not os.path.isabs(one.base_path) and not urllib.parse.urlparse(one.base_path).scheme:
            raise error("relative_path", name=one.name, path=one.base_path)
        platform = one.model_platform
        if one.model_type:
            if platform:
                raise error("two_platforms")
            platform = PLATFORM if one.model_type == 1 else str(one.model_type)
        if not platform:
            raise error("no_platform")
        if platform != PLATFORM:
            raise error("platform", name=one.name, platform=platform)
    return configs


def find_versions(configs):
    """`{model: {number: path}}`, or in place of the versions what is wrong with the folder."""
    return {name: _find(one) for name, one in configs.items()}


def _find(model_config):
    """The versions of a model that its policy wants."""
    folder = model_config.base_path
    try:
        names = files.list_folder(folder) if files.is_remote(folder) else os.listdir(folder)
    except (OSError, BertTfError) as problem:
        return (f"Could not find base path {folder} for servable {model_config.name} with error "
                f"{getattr(problem, 'strerror', problem)}")
    found = {int(name): os.path.join(folder, name) for name in sorted(names)
             if name.isascii() and _INT64.fullmatch(name) and -2**63 <= int(name) < 2**63}
    policy = model_config.model_version_policy
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        wanted, most = found, len(found)
    elif choice == "specific":
        wanted, most = policy.specific.versions, len(found)
    else:
        wanted, most = sorted(found, reverse=True), max(1, policy.latest.num_versions)
    there = (number for number in wanted if number in found and _is_whole(found[number]))
    return {number: found[number] for number in itertools.islice(there, most)}


def _is_whole(version):
    """Whether a version is uploaded to its end; on a disk it has its name from then on."""
    return not files.is_remote(version) or files.is_whole(version)
