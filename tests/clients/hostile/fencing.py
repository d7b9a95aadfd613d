"""Offsets in a transaction by one who is no longer the member that it says it is (KIP-447): refused, and nothing is kept.

A consumer that lost its partitions while it worked must not commit how far it came: another one works on them already.
"""

from groups import FENCED_INSTANCE, ILLEGAL_GENERATION, UNKNOWN_MEMBER, stable, unharmed
from harness import coordinated as co
from harness import own, raw
from harness.check import TMP, equal, fact, new_name, topic
from transactions import begun, connection

# The first version that names a member, and the first whose offsets join the transaction by themselves (KIP-890).
NAMING, ADDING = 3, 5


class Work:
    """An open transaction for a group. Each version's transaction ends as that version does."""

    def __init__(self, c, group, version):
        self.c, self.group, self.version, self.id, self.topic = c, group, version, new_name("id"), topic("work")
        co.find(c, self.id, co.TRANSACTION)
        self.producer = begun(c, self.id)
        if version < ADDING:
            equal(co.add_offsets(c, self.id, self.producer, group), 0, "the group")

    def commit(self, offset, **member):
        return co.commit_of_member(self.c, self.id, self.producer, self.group, self.topic, offset, version=self.version, **member)

    def refused(self, code, what, **member):
        equal(self.commit(13, **member), code, f"version {self.version}: {what}")

    def end(self, commits):
        code = (co.end_by_epoch(self.c, self.id, self.producer, commits)[0] if self.version >= ADDING
                else co.end(self.c, self.id, self.producer, commits))
        equal((code, co.ended(self.c, self.id)), (0, "commit" if commits else "abort"), f"version {self.version}: the end")

    def kept(self, offset, what):
        equal(co.committed(self.c, self.group, self.topic)[:2], (0, offset), f"version {self.version}: {what}")


def of_members(c, group, member, refusals):
    """Every refusal in both kinds of version, then what the member itself commits. `refusals`: (what, code, who)."""
    for version in (NAMING, ADDING):
        work = Work(c, group, version)
        for what, code, who in refusals:
            work.refused(code, what, **who)
        equal(work.commit(5, **member), 0, f"version {version}: of the member")
        for what, code, who in refusals:
            work.refused(code, f"{what}, after the member's", **who)
        work.kept(-1, "committed before the end")
        work.end(True)
        work.kept(5, "committed by the transaction")
        refused = Work(c, group, version)
        if version < ADDING:  # where the offsets themselves add it, nothing may have begun
            for what, code, who in refusals:
                refused.refused(code, what, **who)
            refused.end(True)
            refused.kept(-1, "committed by a transaction of refused offsets alone")


@fact
def offsets_in_a_transaction_are_refused_to_another_generation_or_member():
    group = new_name("group")
    with connection(new_name("id")) as c:
        co.find(c, group)
        member, generation = stable(c, group)
        of_members(c, group, {"member": member, "generation": generation}, (
            ("the generation before", ILLEGAL_GENERATION, {"member": member, "generation": generation - 1}),
            ("a generation to come", ILLEGAL_GENERATION, {"member": member, "generation": generation + 1}),
            ("a member without a generation", ILLEGAL_GENERATION, {"member": member}),
            ("a stranger", UNKNOWN_MEMBER, {"member": "nobody", "generation": generation}),
            ("a generation without a member", UNKNOWN_MEMBER, {"generation": generation}),
            ("an instance that nobody knows", UNKNOWN_MEMBER, {"member": member, "generation": generation, "instance": "nobody"})))
        unharmed(c, group, member, generation)


@fact
def offsets_in_a_transaction_are_refused_to_a_fenced_instance():
    group, instance = new_name("group"), "instance-1"
    with connection(new_name("id")) as c:
        co.find(c, group)
        member, generation = stable(c, group, instance=instance)
        of_members(c, group, {"member": member, "generation": generation, "instance": instance}, (
            ("another member of that instance", FENCED_INSTANCE, {"member": "not-" + member, "generation": generation, "instance": instance}),
            ("the generation before", ILLEGAL_GENERATION, {"member": member, "generation": generation - 1, "instance": instance})))
        unharmed(c, group, member, generation, instance)


@fact
def offsets_in_a_transaction_are_refused_to_a_member_that_was_rebalanced_away():
    """The real course: the consumer works, its group goes on without it, then it wants to commit."""
    group = new_name("group")
    with connection(new_name("id")) as c:
        co.find(c, group)
        late, generation = stable(c, group)
        works = [Work(c, group, version) for version in (NAMING, ADDING)]
        equal(co.leave(c, group, late), 0, "leave")
        member, now = stable(c, group)
        for work in works:
            work.refused(UNKNOWN_MEMBER, "who left", member=late, generation=generation)
            equal(work.commit(5, member=member, generation=now), 0, "who came")
            work.end(False)
            work.kept(-1, "committed by what was aborted")
        unharmed(c, group, member, now)


@fact
def offsets_in_a_transaction_are_refused_to_another_epoch_of_a_kip_848_member():
    group, name, member = new_name("group"), topic("beat"), "m" * 22
    with connection(new_name("id")) as c:
        co.find(c, group)
        code, epoch = co.beat(c, group, member, 0, topics=[name], timeout=10_000, owned=[], instance="instance-1")
        equal(code, 0, "join")
        before = co.consumer_state(c, group)
        of_members(c, group, {"member": member, "generation": epoch}, (
            ("the epoch before", ILLEGAL_GENERATION, {"member": member, "generation": epoch - 1}),
            ("an epoch to come", ILLEGAL_GENERATION, {"member": member, "generation": epoch + 1}),
            ("a stranger", UNKNOWN_MEMBER, {"member": "n" * 22, "generation": epoch}),
            ("an epoch without a member", UNKNOWN_MEMBER, {"generation": epoch})))
        equal(co.consumer_state(c, group), before, "the group afterwards")


@fact
def offsets_in_a_transaction_without_a_member_are_those_of_a_producer_that_names_none():
    """What producers before KIP-447 send holds for a group with members too; a generation of a group that has none does not."""
    group = new_name("group")
    with connection(new_name("id")) as c:
        co.find(c, group)
        for version in (NAMING, ADDING):
            empty = Work(c, new_name("empty"), version)
            empty.refused(ILLEGAL_GENERATION, "a generation of a group that is not there", member="nobody", generation=1)
        member, generation = stable(c, group)
        for version in (NAMING, ADDING):
            work = Work(c, group, version)
            equal(work.commit(5), 0, f"version {version}: no member, no generation")
            work.end(True)
            work.kept(5, "committed")
        unharmed(c, group, member, generation)


@fact
def offsets_join_a_transaction_before_the_broker_had_any_group():
    """kafkajs asks for the group's coordinator, and so for the topic of offsets, only after it added them."""
    with own.running("--data-dir", TMP / new_name("fresh")) as broker, raw.Connection(broker.bootstrap) as c:
        name, group, id = new_name("topic"), "group-1", new_name("id")
        equal(raw.create_topic(broker.bootstrap, name), 0)
        co.find(c, id, co.TRANSACTION)
        producer = begun(c, id)
        equal(co.add_offsets(c, id, producer, group), 0, "the group")
        co.find(c, group)
        equal(co.commit_in(c, id, producer, group, name, 5), 0, "the offset")
        equal((co.end(c, id, producer), co.ended(c, id)), (0, "commit"), "the end")
        equal(co.committed(c, group, name)[:2], (0, 5), "what is committed")
