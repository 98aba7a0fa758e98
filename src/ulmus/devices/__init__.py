"""Fits on a GPU: the same sums and solves as on the CPU, driven through PyTorch.

What belongs where: :mod:`~ulmus.devices.accelerator` finds the device and watches its memory,
:mod:`~ulmus.devices.tensors` brings rows to it, :mod:`~ulmus.devices.feature_maps` turns them into features there,
:mod:`~ulmus.devices.statistics` sums them and :mod:`~ulmus.devices.direct` solves; :mod:`~ulmus.devices.iterative` is
the operator of conjugate gradients, with its preconditioner in :mod:`~ulmus.devices.triangles` and its kernel products
in :mod:`~ulmus.devices.triton_kernels`. Adaptive models grow their trees in :mod:`~ulmus.devices.partition` and solve
leaves in batches (:mod:`~ulmus.devices.leaf_batches`, :mod:`~ulmus.devices.leaves`; for the log loss
:mod:`~ulmus.devices.log_leaves`, by :mod:`~ulmus.devices.inverses`), with kernel values from
:mod:`~ulmus.devices.differences`; :mod:`~ulmus.devices.softmax` is their global log loss, and
:mod:`~ulmus.devices.metric_leaves` are the leaves that teach a metric.

Before a GPU is asked for, only :mod:`~ulmus.devices.accelerator`, :mod:`~ulmus.devices.tensors` and
:mod:`~ulmus.devices.routes` are imported, without PyTorch.
"""
