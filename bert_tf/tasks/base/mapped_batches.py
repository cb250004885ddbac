"""Batches of a Keras `PyDataset`, made into others."""

import keras


class MappedBatches(keras.utils.PyDataset):
    """The batches of a `PyDataset`, each as `read` returns it, which is pickled where workers are
    processes that are spawned."""

    def __init__(self, batches, read):
        super().__init__(batches.workers, batches.use_multiprocessing, batches.max_queue_size)
        self.batches = batches
        self.read = read

    @property
    def num_batches(self):
        return self.batches.num_batches

    def __getitem__(self, index):
        return self.read(self.batches[index])

    def on_epoch_begin(self):
        self.batches.on_epoch_begin()

    def on_epoch_end(self):
        self.batches.on_epoch_end()
