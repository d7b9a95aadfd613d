"""Users and rules as clients manage them: each is made, listed, obeyed within a second, and deleted.

The run's user may do everything by its rules, and manages a user of its own in each fact. That one is refused what no rule allows, with the
error that Kafka's clients are told.
"""

import pathlib
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AdminClient, ResourcePatternType,
                                   ResourceType, ScramCredentialInfo, ScramMechanism, UserScramCredentialDeletion,
                                   UserScramCredentialUpsertion)
from harness import elsewhere, installs
from harness.check import BOOTSTRAP, equal, fact, main, new_name, that, topic
from harness.logins import librdkafka, of_librdkafka, somebody

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from command import tool  # noqa: E402

WAIT = 15
ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
SPECIAL = "users_and_rules_are_made_obeyed_and_deleted"


def code_of(ask):
    """None, or the code of the error that came instead of an answer."""
    try:
        ask()
    except KafkaException as error:
        return error.args[0].code()
    return None


def within_a_second(ask, want, what):
    """The answer is `want`, whoever asks later than a second after the change was answered."""
    change = time.monotonic()
    while (begin := time.monotonic()) and (got := code_of(ask)) != want:
        that(begin < change + 1, f"{what}: {got} instead of {want} after {begin - change:.1f} s")
        time.sleep(0.02)


class Somebody:
    """A user without rights, as librdkafka's clients."""

    def __init__(self, name, password):
        self.connection = {"bootstrap.servers": BOOTSTRAP, **of_librdkafka(somebody(name, password))}
        self.admin = AdminClient(self.connection)

    def sees(self, name):
        return self.admin.describe_topics(TopicCollection([name]))[name].result(WAIT)

    def writes(self, name):
        """The code that a record comes back with."""
        reports, producer = [], Producer({**self.connection, "message.timeout.ms": 10_000})
        producer.produce(name, b"x", on_delivery=lambda error, _: reports.append(error and error.code()))
        equal(producer.flush(WAIT), 0, "a record without an answer")
        return reports[0]

    def reads(self, name, group):
        """The code of the first error that a member of a group meets."""
        consumer = Consumer({**self.connection, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([name])
        try:
            deadline = time.monotonic() + WAIT
            while (message := consumer.poll(0.2)) is None or (message.error() and message.error().retriable()):
                that(time.monotonic() < deadline, "neither a record nor an error")
            return message.error() and message.error().code()
        finally:
            consumer.close()


def check_obeyed(name, password, allow, forget):
    """What a user without rights is refused, and what rules of `allow` change about it, until `forget` takes them away."""
    place, group, user = topic("rights"), new_name("group"), Somebody(name, password)
    equal(code_of(lambda: user.sees(place)), KafkaError.TOPIC_AUTHORIZATION_FAILED, "describing without a rule")
    equal(user.writes(place), KafkaError.TOPIC_AUTHORIZATION_FAILED, "writing without a rule")
    allow("Write", place, None)
    within_a_second(lambda: user.sees(place), None, "describing, as who may write may")
    equal(user.writes(place), None, "writing by a rule")
    equal(user.reads(place, group), KafkaError.GROUP_AUTHORIZATION_FAILED, "reading in a group without a rule")
    allow("Read", None, group)
    equal(user.reads(place, group), KafkaError.TOPIC_AUTHORIZATION_FAILED, "reading a topic without a rule")
    allow("Read", place, None)
    equal(user.reads(place, group), None, "reading by rules")
    forget(place)
    within_a_second(lambda: user.sees(place), KafkaError.TOPIC_AUTHORIZATION_FAILED, "describing after the rules went")
    equal(user.writes(place), KafkaError.TOPIC_AUTHORIZATION_FAILED, "writing after the rules went")
    equal(code_of(lambda: user.admin.create_acls([rule("x", "All", place)])[rule("x", "All", place)].result(WAIT)),
          KafkaError.CLUSTER_AUTHORIZATION_FAILED, "making rules without a rule")
    # Nor may it look at users. But librdkafka 2.16.0 ends its process on that refusal, of whichever broker: it frees what it did not make.


def rule(user, operation, place=None, group=None, kind=AclBinding):
    resource = (ResourceType.TOPIC, place) if place else (ResourceType.GROUP, group)
    return kind(*resource, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation[operation.upper()], AclPermissionType.ALLOW)


@fact
def librdkafka_users_and_rules_are_made_obeyed_and_deleted():
    admin, name = AdminClient(librdkafka(BOOTSTRAP)), new_name("bob")
    _, _, password = somebody(name).values()

    def alter(*changes):
        for future in admin.alter_user_scram_credentials(list(changes)).values():
            future.result(WAIT)

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
    alter(UserScramCredentialUpsertion(name, info, password.encode()))
    seen = admin.describe_user_scram_credentials([name])[name].result(WAIT).scram_credential_infos
    equal([(i.mechanism, i.iterations) for i in seen], [(ScramMechanism.SCRAM_SHA_512, 4_096)], "what is known of the user")

    def allow(operation, place, group):
        made = rule(name, operation, place, group)
        admin.create_acls([made])[made].result(WAIT)

    def forget(place):
        wanted = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{name}", None, AclOperation.ANY, AclPermissionType.ANY)
        listed = admin.describe_acls(wanted).result(WAIT)
        equal(sorted((a.restype.name, a.operation.name) for a in listed), [("GROUP", "READ"), ("TOPIC", "READ"), ("TOPIC", "WRITE")], "rules")
        deleted = admin.delete_acls([wanted])[wanted].result(WAIT)
        equal(len(deleted), 3, "rules that were deleted")
        equal(admin.describe_acls(wanted).result(WAIT), [], "rules that are left")

    check_obeyed(name, password, allow, forget)
    alter(UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512))
    equal(code_of(lambda: admin.describe_user_scram_credentials([name])[name].result(WAIT)), KafkaError.RESOURCE_NOT_FOUND, "the deleted user")
    equal(code_of(lambda: alter(UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512))), KafkaError.RESOURCE_NOT_FOUND,
          "deleting the user again")
    errors = []
    late = AdminClient({"bootstrap.servers": BOOTSTRAP, **of_librdkafka(somebody(name)), "error_cb": errors.append})
    deadline = time.monotonic() + WAIT
    while KafkaError._AUTHENTICATION not in [e.code() for e in errors]:
        that(time.monotonic() < deadline, f"who is no user any more meets {errors}")
        late.poll(0.2)


@fact
def kafka_acls_and_kafka_configs_do_the_same():
    name = new_name("carl")
    _, _, password = somebody(name).values()
    entity = ("--entity-type", "users", "--entity-name", name)
    out = tool(installs.CONFIG_COMMAND, "--alter", *entity, "--add-config", f"SCRAM-SHA-512=[iterations=8192,password={password}]")
    that(f"Completed updating config for user {name}" in out, out)
    out = tool(installs.CONFIG_COMMAND, "--describe", *entity)
    that("SCRAM-SHA-512=iterations=8192" in out, out)

    def allow(operation, place, group):
        resource = ("--topic", place) if place else ("--group", group)
        out = tool(ACL_COMMAND, "--add", "--allow-principal", f"User:{name}", "--operation", operation, *resource)
        that(f"principal=User:{name}, host=*, operation={operation.upper()}, permissionType=ALLOW" in out, out)

    def forget(place):
        out = tool(ACL_COMMAND, "--list", "--topic", place)
        that(all(f"principal=User:{name}, host=*, operation={word}, permissionType=ALLOW" in out for word in ("READ", "WRITE")), out)
        tool(ACL_COMMAND, "--remove", "--force", "--topic", place)

    check_obeyed(name, password, allow, forget)
    equal(tool(ACL_COMMAND, "--list", "--topic", new_name("nosuch")).strip(), "", "rules of a topic that has none")
    tool(installs.CONFIG_COMMAND, "--alter", *entity, "--delete-config", "SCRAM-SHA-512")
    out = tool(installs.CONFIG_COMMAND, "--describe", *entity)
    that("iterations" not in out, out)


@fact
def java_admin_does_the_same():
    elsewhere.ask("java", SPECIAL, 240)


@fact
def kadm_does_the_same():
    elsewhere.ask("franz", SPECIAL, 240)


if __name__ == "__main__":
    main("users and rules")
