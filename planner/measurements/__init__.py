"""One reader per outside format: request traces, and what benchmarks measured.

* :mod:`planner.measurements.read`: ``sniff`` and ``read_measurements``, for any known file.
* :mod:`planner.measurements.measurement`: the frozen documents that come out.
* :mod:`planner.measurements.checks`: what may be wrong with a measurement, as named findings.
* :mod:`planner.measurements.traces`: lengths of requests.
"""
