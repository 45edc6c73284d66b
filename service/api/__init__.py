"""The REST service: `app.create_app` builds it over a `backend.Backend`.

http/      what has nothing to do with labels: keys, limits, bodies, NDJSON, problem details
batching/  requests share the runs of the model
scoring/   POST /v1/score: sentences to assessments
ingest/    sentences and platform records from bodies into the log
routes/    one module per resource
console/   the review page: HTML, scripts and styles
"""
