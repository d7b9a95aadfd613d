"""Transaction requests that no client would send, or too late: the code that Kafka gives, and a transaction that is what it was."""

from harness import coordinated as co
from harness import raw
from harness.check import BOOTSTRAP, equal, fact, new_name, that, topic

UNKNOWN_TOPIC, INVALID_REQUEST, INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING = 3, 42, 47, 48, 49
INVALID_TIMEOUT, CONCURRENT, NOT_ATTEMPTED, FENCED, NO_TRANSACTION, OUT_OF_ORDER = 50, 51, 55, 90, 105, 45


def connection(name):
    c = raw.Connection(BOOTSTRAP)
    co.find(c, name, co.TRANSACTION)
    return c


def begun(c, name):
    code, producer, epoch = co.begin(c, name)
    equal(code, 0, "InitProducerId")
    return producer, epoch


def others(producer):
    """Producers that are not this one: what they are called, and who they are."""
    number, epoch = producer
    return (("a producer id that is another's", (number + 1_000, epoch), INVALID_MAPPING), ("an epoch to come", (number, epoch + 1), FENCED),
            ("no producer", (-1, -1), INVALID_MAPPING))


@fact
def what_nobody_began_cannot_be_ended():
    name = new_name("id")
    with connection(name) as c:
        equal(co.end(c, name, (4711, 0)), INVALID_MAPPING, "an id that nobody has")
        equal(co.transaction_state(c, name)[0], NO_TRANSACTION, "it still is not there")
        producer = begun(c, name)
        for commits in (True, False):
            equal(co.end(c, name, producer, commits), INVALID_STATE, f"an empty transaction, commit {commits}")
        equal(co.transaction_state(c, name), (0, "Empty", []), "the transaction")
        equal(co.end(c, "", producer), INVALID_REQUEST, "no id at all")


@fact
def a_bad_id_or_timeout_gets_no_producer():
    name = new_name("id")
    with connection(name) as c:
        for timeout in (0, -1, 900_001, 2**31 - 1):
            equal(co.begin(c, name, timeout)[0], INVALID_TIMEOUT, f"{timeout} ms")
        equal(co.begin(c, "")[0], INVALID_REQUEST, "an empty id")
        equal(co.transaction_state(c, name)[0], NO_TRANSACTION, "the transaction")


@fact
def a_stranger_changes_nothing_in_a_transaction():
    name, one, two, group = new_name("id"), topic("one"), topic("two"), new_name("group")
    with connection(name) as c:
        producer = begun(c, name)
        equal(co.add_partitions(c, name, producer, [one]), {one: 0}, "the partition")
        equal(co.produce(c, name, one, producer), (0, 0), "the record")
        for what, other, code in others(producer):
            equal(co.add_partitions(c, name, other, [two]), {two: code}, f"partitions of {what}")
            equal(co.add_offsets(c, name, other, group), code, f"offsets of {what}")
            equal(co.end(c, name, other), code, f"the end by {what}")
        equal(co.transaction_state(c, name), (0, "Ongoing", [one]), "the transaction")
        equal(co.stable_end(c, one), 0, "what readers of committed data see")
        equal(co.end(c, name, producer), 0, "its own end")


@fact
def a_fenced_producer_changes_nothing():
    name, one, two, group = new_name("id"), topic("one"), topic("two"), new_name("group")
    with connection(name) as c:
        old = begun(c, name)
        new = begun(c, name)
        equal((new[0], new[1] > old[1]), (old[0], True), "the next producer")
        equal(co.add_partitions(c, name, old, [one]), {one: FENCED}, "partitions")
        equal(co.add_offsets(c, name, old, group), FENCED, "offsets")
        equal(co.end(c, name, old), FENCED, "the end")
        equal(co.transaction_state(c, name), (0, "Empty", []), "the transaction")
        equal(co.add_partitions(c, name, new, [one, two]), {one: 0, two: 0}, "the new one's partitions")
        equal(co.produce(c, name, one, new), (0, 0), "the new one's record")
        equal(co.produce(c, name, one, old)[0], INVALID_EPOCH, "a record of the old one")
        equal(co.end(c, name, old, False), FENCED, "the end by the old one")
        equal(co.transaction_state(c, name), (0, "Ongoing", sorted([one, two])), "the transaction of the new one")
        equal(co.end(c, name, new), 0, "its end")


@fact
def partitions_that_are_not_there_are_added_with_none():
    name, one, missing = new_name("id"), topic("one"), new_name("nosuch")
    with connection(name) as c:
        producer = begun(c, name)
        equal(co.add_partitions(c, name, producer, [one, missing]), {one: NOT_ATTEMPTED, missing: UNKNOWN_TOPIC}, "one of two")
        equal(co.transaction_state(c, name), (0, "Empty", []), "the transaction")


@fact
def a_transactional_batch_outside_of_a_transaction_is_refused():
    name, one, two = new_name("id"), topic("one"), topic("two")
    with connection(name) as c:
        producer = begun(c, name)
        equal(co.produce(c, name, one, producer)[0], INVALID_STATE, "before the transaction")
        equal(co.add_partitions(c, name, producer, [one]), {one: 0})
        equal(co.produce(c, name, two, producer)[0], INVALID_STATE, "a partition that was not added")
        equal(co.produce(c, name, one, producer, is_transactional=True), (0, 0), "the one that was")
        equal(co.produce(c, name, one, producer, 1, is_transactional=False)[0], INVALID_STATE, "a plain batch within the transaction")
        equal(co.produce(c, name, one, producer, 7)[0], OUT_OF_ORDER, "a gap in the sequence")
        equal(co.end(c, name, producer, False), 0, "the end")
        equal(co.ended(c, name), "abort", "the transaction")  # its marker may be written before
        equal(co.produce(c, name, one, producer, 1)[0], INVALID_STATE, "after the transaction")
        equal((co.stable_end(c, one), co.stable_end(c, two)), (2, 0), "the ends: a record and its marker, and nothing")


@fact
def offsets_outside_of_a_transaction_are_not_kept():
    name, one, group = new_name("id"), topic("one"), new_name("group")
    with connection(name) as c:
        co.find(c, group)
        producer = begun(c, name)
        equal(co.commit_in(c, name, producer, group, one, 5), INVALID_STATE, "offsets of a group that was not added")
        equal(co.add_offsets(c, name, producer, group), 0, "the group")
        equal(co.commit_in(c, name, producer, group, new_name("nosuch"), 5), UNKNOWN_TOPIC, "a topic that is not there")
        equal(co.commit_in(c, name, (producer[0], producer[1] + 1), group, one, 5) != 0, True, "an epoch to come")
        equal(co.commit_in(c, name, producer, group, one, 5), 0, "the offset")
        equal(co.committed(c, group, one)[:2], (0, -1), "what is committed before the end")
        equal(co.end(c, name, producer, False), 0, "abort")
        equal(co.ended(c, name), "abort", "the transaction")
        equal(co.committed(c, group, one)[:2], (0, -1), "what is committed after it")


@fact
def a_transaction_that_ended_ends_no_other_way():
    name, one = new_name("id"), topic("one")
    with connection(name) as c:
        producer = begun(c, name)
        equal(co.add_partitions(c, name, producer, [one]), {one: 0})
        equal(co.produce(c, name, one, producer), (0, 0))
        equal(co.end(c, name, producer), 0, "commit")
        co.patiently(lambda: 0 if co.transaction_state(c, name)[1] == "CompleteCommit" else 14, lambda code: [code])
        equal(co.end(c, name, producer), 0, "commit once more")
        equal(co.end(c, name, producer, False), INVALID_STATE, "abort of what is committed")
        equal(co.transaction_state(c, name), (0, "CompleteCommit", []), "the transaction")
        equal(co.stable_end(c, one), 2, "one record and one marker")
    that(raw.answers(BOOTSTRAP), "the broker no longer answers")


def aborted(c, name, one):
    """A producer whose transaction another one's first InitProducerId had aborted."""
    producer = begun(c, name)
    equal(co.produce_adding(c, name, one, producer), 0, "the record")
    equal(co.begin_once(c, name)[0], CONCURRENT, "the other's first InitProducerId")
    co.patiently(lambda: 0 if co.transaction_state(c, name)[1] == "CompleteAbort" else 14, lambda code: [code])
    return producer


@fact
def who_was_aborted_for_another_cannot_commit_and_goes_on_after_its_abort():
    name, one = new_name("id"), topic("one")
    with connection(name) as c:
        old = aborted(c, name, one)
        equal(co.end_by_epoch(c, name, old)[0], INVALID_STATE, "commit")
        equal(co.stable_end(c, one), 2, "one record and one marker")
        # The coordinator's abort takes one epoch, as that of the producer would have: to it that is its own, repeated.
        next_epoch = (old[0], old[1] + 1)
        equal(co.end_by_epoch(c, name, old, False), (0, *next_epoch), "abort")
        equal(co.produce_adding(c, name, one, old), INVALID_EPOCH, "a record under the epoch of before")
        equal(co.begin(c, name), (0, old[0], old[1] + 2), "the other's next InitProducerId")
        for commits in (True, False):
            equal(co.end_by_epoch(c, name, old, commits)[0], FENCED, f"the end once the other has its epoch, commit {commits}")
            equal(co.end_by_epoch(c, name, next_epoch, commits)[0], FENCED, f"the same under the epoch of the abort, commit {commits}")
        equal(co.transaction_state(c, name), (0, "Empty", []), "the transaction of the other")
