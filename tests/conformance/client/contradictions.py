"""Tests of the suite that no client can pass when every expectation counts, and why.

Each contradicts the server that it is run against. A test that is named here and passes is as much a fault as one that
is not named and fails, so the list can't outlive its reasons.
"""

REFERENCE = {
    "consumer-errors/read-future-offset": "the reference server refuses the offset 'ffffffffffffffff' with 400",
    "consumer-offset/offset-zero-start": "the reference server refuses the offset '0' with 400",
    "consumer-sse-base64/sse-base64-empty-payload": "its set-up appends nothing, which servers must refuse (§5.2)",
}

EVERBROOK = {
    "consumer-errors/read-future-offset": "'ffffffffffffffff' is no offset of Everbrook: 400",
    "consumer-offset/offset-zero-start": "'0' is no offset of Everbrook: 400",
    "consumer-sse-base64/sse-base64-empty-payload": "its set-up appends nothing, which servers must refuse (§5.2)",
    "consumer-sse/sse-strips-single-leading-space": (
        "it expects the reference server to lose the first space of a line; Everbrook sends it so that it survives"
    ),
    "stream-closure/idempotent-producer-close-conflict": (
        "to close a closed stream without data succeeds, for any producer (§5.2.1); the reference server refuses it"
    ),
}
