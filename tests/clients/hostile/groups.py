"""Group requests that no client would send: the code that Kafka gives, and a group that is what it was."""

import struct

from harness import coordinated as co
from harness import raw
from harness.check import BOOTSTRAP, BROKER_KIND, equal, fact, new_name, that, topic

UNKNOWN_TOPIC, METADATA_TOO_LARGE, ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, INVALID_GROUP = 3, 12, 22, 23, 24
UNKNOWN_MEMBER, INVALID_SESSION_TIMEOUT, INVALID_REQUEST, NON_EMPTY_GROUP, NO_GROUP = 25, 26, 42, 68, 69
MEMBER_ID_REQUIRED, FENCED_INSTANCE, SUBSCRIBED, UNKNOWN_TOPIC_ID = 79, 82, 86, 100
FENCED_EPOCH, UNSUPPORTED_ASSIGNOR, UNRELEASED_INSTANCE, BAD_REGEX, UNSUPPORTED_VERSION = 110, 112, 111, 128, 35
# Counts of millions and no bytes for them: Kafka's coordinator never ends a join that brings these (RuntimeException in its log).
GARBAGE = bytes(range(256)) * 3 if BROKER_KIND == "esker" else b"\xff"


def connection(key):
    c = raw.Connection(BOOTSTRAP)
    co.find(c, key)
    return c


def stable(c, group, **options):
    """A group with one member and its assignment: (member id, generation)."""
    if options.get("instance") is None:
        code, _, member, _, _ = co.join(c, group, **options)
        equal(code, MEMBER_ID_REQUIRED, "the first join of a member without id")
    else:
        member = ""
    code, generation, member, leader, _ = co.join(c, group, member, **options)
    equal((code, leader), (0, member), "join")
    equal(co.sync(c, group, generation, member, [(member, b"all of it")], options.get("instance")), (0, b"all of it"), "sync")
    return member, generation


def unharmed(c, group, member, generation, instance=None):
    equal(co.describe(c, group), ("Stable", {member: b"all of it"}), "the group afterwards")
    equal(co.heartbeat(c, group, generation, member, instance), 0, "its member afterwards")


@fact
def a_group_name_may_be_as_long_as_a_string():
    name, group = topic("named"), new_name("n" * 32_700)
    group += "x" * (32_767 - len(group))
    with connection(group) as c:
        equal(co.commit(c, group, name, 7), 0, "commit")
        equal(co.committed(c, group, name)[:2], (0, 7), "what is committed")
        equal(co.commit(c, group[:-1] + "y", name, 9), 0, "of one that differs in its last letter")
        equal(co.committed(c, group, name)[:2], (0, 7), "what is committed still")
        equal(co.delete_group(c, group), 0, "delete")
        equal(co.committed(c, group, name)[:2], (0, -1), "what is left")


@fact
def a_group_without_a_name_has_no_members():
    with connection("") as c:
        equal(co.join(c, "")[0], INVALID_GROUP, "join")
        equal(co.sync(c, "", 1, "m")[0], INVALID_GROUP, "sync")
        equal(co.heartbeat(c, "", 1, "m"), INVALID_GROUP, "heartbeat")
        equal(co.leave(c, "", "m"), INVALID_GROUP, "leave")
        equal(co.delete_group(c, ""), NO_GROUP, "delete")
        equal(co.beat(c, "", "m", 0, topics=["t"], timeout=1_000, owned=[])[0], INVALID_REQUEST, "KIP-848 heartbeat")


@fact
def a_stranger_changes_nothing_in_a_group():
    name, group = topic("stranger"), new_name("group")
    with connection(group) as c:
        member, generation = stable(c, group)
        for who in ("nobody", "", member + "x", "m" * 32_767):
            equal(co.heartbeat(c, group, generation, who), UNKNOWN_MEMBER, f"heartbeat of {who[:40]!r}")
            equal(co.sync(c, group, generation, who, [(member, b"mine")])[0], UNKNOWN_MEMBER, f"sync of {who[:40]!r}")
            equal(co.leave(c, group, who), UNKNOWN_MEMBER, f"leave of {who[:40]!r}")
            equal(co.leave_alone(c, group, who), UNKNOWN_MEMBER, f"leave of {who[:40]!r} alone")
            equal(co.commit(c, group, name, 5, generation=generation, member=who), UNKNOWN_MEMBER, f"commit of {who[:40]!r}")
            if who:
                equal(co.join(c, group, who)[0], UNKNOWN_MEMBER, f"join of {who[:40]!r}")
        equal(co.commit(c, group, name, 5), UNKNOWN_MEMBER, "commit without a member")
        equal(co.committed(c, group, name)[:2], (0, -1), "what is committed")
        unharmed(c, group, member, generation)


@fact
def another_generation_is_refused():
    name, group = topic("generation"), new_name("group")
    with connection(group) as c:
        member, generation = stable(c, group)
        for other in (generation - 1, generation + 1, -2, 2**31 - 1):
            equal(co.heartbeat(c, group, other, member), ILLEGAL_GENERATION, f"heartbeat of generation {other}")
            equal(co.sync(c, group, other, member, [(member, b"mine")])[0], ILLEGAL_GENERATION, f"sync of generation {other}")
            equal(co.commit(c, group, name, 5, generation=other, member=member), ILLEGAL_GENERATION, f"commit of generation {other}")
        equal(co.committed(c, group, name)[:2], (0, -1), "what is committed")
        unharmed(c, group, member, generation)


@fact
def a_fenced_instance_changes_nothing():
    name, group, instance = topic("static"), new_name("group"), "instance-1"
    with connection(group) as c:
        member, generation = stable(c, group, instance=instance)
        other = "not-" + member
        equal(co.heartbeat(c, group, generation, other, instance), FENCED_INSTANCE, "heartbeat")
        equal(co.sync(c, group, generation, other, (), instance)[0], FENCED_INSTANCE, "sync")
        equal(co.join(c, group, other, instance=instance)[0], FENCED_INSTANCE, "join")
        equal(co.leave(c, group, other, instance), FENCED_INSTANCE, "leave")
        equal(co.commit(c, group, name, 5, generation=generation, member=other, instance=instance), FENCED_INSTANCE, "commit")
        equal(co.heartbeat(c, group, generation, member, "instance-2"), UNKNOWN_MEMBER, "an instance that nobody knows")
        equal(co.committed(c, group, name)[:2], (0, -1), "what is committed")
        unharmed(c, group, member, generation, instance)


@fact
def a_session_out_of_bounds_makes_no_group():
    group = new_name("group")
    with connection(group) as c:
        for session in (-1, 0, 1, 5_999, 1_800_001, 2**31 - 1):
            equal(co.join(c, group, session=session)[0], INVALID_SESSION_TIMEOUT, f"{session} ms")
        equal(co.describe(c, group), ("Dead", {}), "the group")


@fact
def protocols_that_do_not_fit_are_refused():
    group = new_name("group")
    with connection(group) as c:
        for what, options in (("none", {"protocols": ()}), ("no kind", {"kind": ""})):
            equal(co.join(c, group, **options)[0], INCONSISTENT_PROTOCOL, f"into no group: {what}")
        equal(co.describe(c, group)[1], {}, "the group's members")
        member, generation = stable(c, group)
        for what, options in (("none", {"protocols": ()}), ("another kind", {"kind": "connect"}), ("no kind", {"kind": ""}),
                              ("none in common", {"protocols": (("sticky", b""), ("", b""))})):
            equal(co.join(c, group, **options)[0], INCONSISTENT_PROTOCOL, f"a newcomer: {what}")
            equal(co.join(c, group, member, **options)[0], INCONSISTENT_PROTOCOL, f"the member: {what}")
        unharmed(c, group, member, generation)


@fact
def garbage_as_subscription_and_assignment_is_handed_through():
    """Both are the members' own affair; the group that holds them cannot become a KIP-848 group."""
    name, group = topic("garbage"), new_name("group")
    with connection(group) as c:
        options = {"protocols": (("range", GARBAGE), ("", b"\xff"))}
        code, _, member, _, _ = co.join(c, group, **options)
        equal(code, MEMBER_ID_REQUIRED)
        code, generation, member, _, members = co.join(c, group, member, **options)
        equal((code, members), (0, [(member, GARBAGE)]), "join")
        equal(co.sync(c, group, generation, member, [("nobody", b"lost"), (member, GARBAGE)]), (0, GARBAGE), "sync")
        equal(co.describe(c, group), ("Stable", {member: GARBAGE}), "the group")
        equal(co.commit(c, group, name, 5, generation=generation, member=member), 0, "commit")
        equal(co.beat(c, group, "m" * 22, 0, topics=[name], timeout=1_000, owned=[])[0], NO_GROUP, "a KIP-848 member")
        equal(co.describe(c, group), ("Stable", {member: GARBAGE}), "the group afterwards")
        equal(co.leave(c, group, member), 0, "leave")
        equal(co.committed(c, group, name)[:2], (0, 5), "what is committed")


@fact
def offsets_that_cannot_be_are_not_kept():
    name, group = topic("commits"), new_name("group")
    with connection(group) as c:
        equal(co.commit(c, group, name, 5, metadata="m" * 4_096), 0, "as much metadata as may be")
        equal(co.commit(c, group, name, 6, metadata="m" * 4_097), METADATA_TOO_LARGE, "a letter more")
        equal(co.commit(c, group, name, 6, metadata="m" * 32_767), METADATA_TOO_LARGE, "all that fits")
        equal(co.commit(c, group, name, 6, partition=1), UNKNOWN_TOPIC, "a partition that is not there")
        equal(co.commit(c, group, name, 6, partition=-1), UNKNOWN_TOPIC, "partition -1")
        equal(co.commit(c, group, new_name("nosuch"), 6), UNKNOWN_TOPIC, "a topic that is not there")
        equal(co.commit_by_id(c, group, b"\x17" * 16, 6), UNKNOWN_TOPIC_ID, "an id that nobody has")
        equal(co.commit_by_id(c, group, bytes(16), 6), UNKNOWN_TOPIC_ID, "an id of zeroes")
        equal(co.commit(c, group, "", 6), UNKNOWN_TOPIC, "a topic without a name")
        equal(co.commit(c, group, name, 6, generation=3, member="m"), UNKNOWN_MEMBER, "a generation of a group without members")
        equal(co.committed(c, group, name), (0, 5, "m" * 4_096), "what is committed")


@fact
def offsets_of_a_topic_go_with_it():
    name, group = topic("deleted"), new_name("group")
    with connection(group) as c:
        equal(co.commit(c, group, name, 5), 0, "commit")
        equal(co.delete_topic(c, name), 0, "delete")
        co.patiently(lambda: 0 if co.committed(c, group, name)[1] == -1 else 14, lambda code: [code])
        equal(co.commit(c, group, name, 6), UNKNOWN_TOPIC, "commit afterwards")
        equal(raw.create_topic(BOOTSTRAP, name), 0, "a topic of the same name")
        equal(co.committed(c, group, name)[:2], (0, -1), "what is committed for it")


@fact
def a_dead_group_takes_no_part():
    name, group = topic("dead"), new_name("group")
    with connection(group) as c:
        equal(co.commit(c, group, name, 5, generation=1, member="m"), ILLEGAL_GENERATION, "commit of a generation")
        equal(co.heartbeat(c, group, 1, "m"), UNKNOWN_MEMBER, "heartbeat")
        equal(co.sync(c, group, 1, "m")[0], UNKNOWN_MEMBER, "sync")
        equal(co.leave(c, group, "m"), UNKNOWN_MEMBER, "leave")
        equal(co.delete_group(c, group), NO_GROUP, "delete")
        equal(co.delete_offset(c, group, name), NO_GROUP, "delete an offset")
        equal(co.beat(c, group, "m" * 22, 3)[0], NO_GROUP, "KIP-848 heartbeat")
        equal(co.describe(c, group), ("Dead", {}), "the group")
        member, generation = stable(c, group)
        equal(co.delete_group(c, group), NON_EMPTY_GROUP, "delete with a member")
        equal(co.leave(c, group, member), 0, "leave")
        equal(co.delete_group(c, group), 0, "delete without members")
        equal(co.heartbeat(c, group, generation, member), UNKNOWN_MEMBER, "heartbeat of the member that was")
        equal(co.join(c, group, member)[0], UNKNOWN_MEMBER, "join of the member that was")
        equal(co.commit(c, group, name, 5, generation=generation, member=member), ILLEGAL_GENERATION, "commit of the member that was")
        equal(co.describe(c, group), ("Dead", {}), "the group at the end")


@fact
def a_bad_kip_848_heartbeat_changes_nothing():
    name, group, member = topic("beat"), new_name("group"), "m" * 22
    with connection(group) as c:
        joined = {"topics": [name], "timeout": 10_000, "owned": []}
        for what, code, options in (("an assignor that is not there", UNSUPPORTED_ASSIGNOR, {"assignor": "nosuch"}),
                                    ("no subscription", INVALID_REQUEST, {"topics": None}), ("no time", INVALID_REQUEST, {"timeout": -1}),
                                    ("half a pattern", BAD_REGEX, {"topics": None, "pattern": "("}),
                                    ("a join that has partitions", INVALID_REQUEST, {"owned": [bytes(16) + co.compact_array([struct.pack(">i", 0)]) + b"\0"]}),
                                    ("an empty instance", INVALID_REQUEST, {"instance": ""}), ("an empty assignor", UNSUPPORTED_ASSIGNOR, {"assignor": ""})):
            equal(co.beat(c, group, member, 0, **{**joined, **options})[0], code, what)
        equal(co.consumer_state(c, group)[0], NO_GROUP, "the group before anybody joined")
        code, epoch = co.beat(c, group, member, 0, **joined)
        equal(code, 0, "join")
        before = co.consumer_state(c, group)
        equal(co.beat(c, group, "nobody", 1)[0], UNKNOWN_MEMBER, "a stranger")
        equal(co.beat(c, group, "nobody", -1)[0], UNKNOWN_MEMBER, "a stranger that leaves")
        equal(co.beat(c, group, member, epoch + 1)[0], FENCED_EPOCH, "an epoch to come")
        equal(co.beat(c, group, member, -3)[0], INVALID_REQUEST, "no epoch at all")
        equal(co.beat(c, group, "", epoch)[0], INVALID_REQUEST, "no member")
        equal(co.beat(c, group, member, epoch, assignor="nosuch")[0], UNSUPPORTED_ASSIGNOR, "an assignor that is not there")
        equal(co.beat(c, group, member, epoch, pattern="[")[0], BAD_REGEX, "half a pattern")
        equal(co.commit(c, group, name, 5, generation=epoch, member=member), UNSUPPORTED_VERSION, "commit by a request that knows no such members")
        equal(co.commit(c, group, name, 5), UNKNOWN_MEMBER, "commit without a member")
        equal(co.delete_offset(c, group, name), SUBSCRIBED, "offsets of what is subscribed to")
        equal(co.delete_offset(c, group, name, 9), UNKNOWN_TOPIC, "offsets of a partition that is not there")
        equal(co.delete_group(c, group), NON_EMPTY_GROUP, "delete")
        equal(co.consumer_state(c, group), before, "the group afterwards")
        equal(co.committed(c, group, name)[:2], (0, -1), "what is committed")
        equal(co.beat(c, group, member, -1), (0, -1), "leave")


@fact
def an_instance_in_use_is_not_taken_by_a_kip_848_member():
    name, group = topic("owned"), new_name("group")
    with connection(group) as c:
        options = {"topics": [name], "timeout": 10_000, "owned": [], "instance": "instance-1"}
        code, epoch = co.beat(c, group, "a" * 22, 0, **options)
        equal(code, 0, "join")
        equal(co.beat(c, group, "b" * 22, 0, **options)[0], UNRELEASED_INSTANCE, "another one joins")
        equal(co.beat(c, group, "b" * 22, epoch, instance="instance-1")[0], FENCED_INSTANCE, "another one beats")
        equal(co.beat(c, group, "a" * 22, epoch, instance="instance-2")[0], UNKNOWN_MEMBER, "an instance that nobody knows")
        equal(co.beat(c, group, "a" * 22, epoch, instance="instance-1")[0], 0, "the member afterwards")
    that(raw.answers(BOOTSTRAP), "the broker no longer answers")


@fact
def epochs_of_a_kip_848_group_begin_at_2():
    name, group, member = topic("epochs", 2), new_name("group"), "m" * 22
    with connection(group) as c:
        code, epoch, assigned = co.beaten(c, group, member, 0, topics=[name], timeout=10_000, owned=[])
        equal((code, epoch, [partitions for _, partitions in assigned]), (0, 2, [[0, 1]]), "join")
        equal(co.consumer_state(c, group), (0, "Stable", 2, 2), "the group")
        equal(co.beaten(c, group, member, 2), (0, 2, None), "the next heartbeat")
        equal(co.beat(c, group, member, -1), (0, -1), "leave")
        equal(co.consumer_state(c, group), (0, "Empty", 3, 3), "the group that it left")


@fact
def a_first_kip_848_member_that_subscribes_to_nothing_is_in_epoch_1():
    name, group, member = topic("nothing"), new_name("group"), "m" * 22
    with connection(group) as c:
        equal(co.beaten(c, group, member, 0, topics=[], timeout=10_000, owned=[]), (0, 1, []), "join")
        equal(co.consumer_state(c, group), (0, "Stable", 1, 1), "the group")
        equal(co.beaten(c, group, member, 1), (0, 1, None), "the next heartbeat")
        code, epoch, assigned = co.beaten(c, group, member, 1, topics=[name])
        equal((code, epoch, [partitions for _, partitions in assigned]), (0, 2, [[0]]), "the first subscription")
        equal(co.consumer_state(c, group), (0, "Stable", 2, 2), "the group with a subscription")
        equal(co.beat(c, group, member, -1), (0, -1), "leave")
        equal(co.consumer_state(c, group), (0, "Empty", 3, 3), "the group that it left")


@fact
def a_static_member_that_changes_its_protocol_keeps_the_epoch():
    name, group, instance = topic("changes"), new_name("group"), "instance-1"
    subscription = struct.pack(">h", 0) + raw.array([raw.string(name)]) + raw.data(b"")
    assignment = struct.pack(">h", 0) + raw.array([raw.string(name) + raw.array([struct.pack(">i", 0)])]) + raw.data(b"")
    with connection(group) as c:
        code, generation, member, _, _ = co.join(c, group, instance=instance, protocols=(("range", subscription),))
        equal(code, 0, "join")
        equal(co.sync(c, group, generation, member, [(member, assignment)], instance), (0, assignment), "sync")
        code, epoch, assigned = co.beaten(c, group, "m" * 22, 0, topics=[name], timeout=10_000, owned=[], instance=instance)
        equal((code, epoch, [partitions for _, partitions in assigned]), (0, generation, [[0]]), "its heartbeat")
        equal(co.consumer_state(c, group), (0, "Stable", generation, generation), "the group")
