"""A broker that forgets transactional ids after two seconds: what their producers find when they come back.

Forgetting is looked for by its own effects, never by the clock alone.
"""

from harness import coordinated as co
from harness import raw
from harness.check import BOOTSTRAP, equal, fact, main, new_name, that, topic

INVALID_MAPPING, NO_TRANSACTION = 49, 105
UNKNOWN, KNOWN = 14, 0  # what `patiently` takes for not yet and for done


def connection(name):
    c = raw.Connection(BOOTSTRAP)
    co.find(c, name, co.TRANSACTION)
    return c


def wait_until_forgotten(is_known):
    co.patiently(lambda: UNKNOWN if is_known() else KNOWN, lambda code: [code])


@fact
def a_transactional_id_that_was_forgotten_can_end_nothing():
    name, identity, group = topic("expired"), new_name("id"), new_name("group")
    with connection(identity) as c:
        _, number, epoch = co.begin(c, identity)
        producer = (number, epoch)
        equal(co.add_partitions(c, identity, producer, [name]), {name: 0})
        equal(co.produce(c, identity, name, producer), (0, 0))
        equal(co.end(c, identity, producer), 0, "its last transaction")
        wait_until_forgotten(lambda: co.transaction_state(c, identity)[0] != NO_TRANSACTION)
        equal(co.end(c, identity, producer), INVALID_MAPPING, "the end")
        equal(co.add_partitions(c, identity, producer, [name]), {name: INVALID_MAPPING}, "partitions")
        equal(co.add_offsets(c, identity, producer, group), INVALID_MAPPING, "offsets")
        that(co.produce(c, identity, name, producer, 1)[0] != 0, "a record")
        equal(co.transaction_state(c, identity)[0], NO_TRANSACTION, "it still is not there")
        equal(co.stable_end(c, name), 2, "one record and one marker")
        code, again, epoch = co.begin(c, identity)
        equal((code, again != number, epoch), (0, True, 0), "another producer under the same id")


if __name__ == "__main__":
    main("protocol 4.4")
