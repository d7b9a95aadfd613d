"""Who a test's clients are: the user of a run with `--sasl`, and how each kind of client is told.

Owns the words by which clients are told: no test spells out a mechanism or a password. All of it is empty in a run without logins, and for
brokers that a test started for itself: those ask for none. Also owns the passwords that no broker may show, and where it could.
"""

import base64
import os
import pathlib
import secrets
import struct
import urllib.error
import urllib.request

# What a listener offers; a run logs in by one of them.
MECHANISMS = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USER = "suite"
# All that a client does, by rules: a super user would ask none. `user` is for those who manage users.
RIGHTS = ["all:topic:*", "all:group:*", "all:transactional-id:*", "all:cluster"]
CLUSTER_SECRET = "cluster.secret"  # in the data directory of the node that made it
NAME = "ESKER_SASL_"  # of the variables that tell a test's program


class Planted:
    """The user of a run. Its password is like no other text, so that it is found wherever it leaks to."""

    def __init__(self, mechanism, folder):
        self.mechanism, self.user, self.password, self.folder = mechanism, USER, new_password(), folder

    def password_file(self):
        return private(self.folder / "password", self.password + "\n")

    def environment(self, mechanism=None):
        """What a test's program finds. `mechanism`: the only one that its client knows."""
        mechanism = mechanism or self.mechanism
        env = {NAME + "MECHANISM": mechanism, NAME + "USER": self.user, NAME + "PASSWORD": self.password}
        java = private(self.folder / f"{mechanism}.properties", "".join(f"{k}={v}\n" for k, v in of_java(env).items()))
        # kcat reads its settings from there by itself. Its librdkafka may be older than 2.6.1, whose SCRAM is refused since Kafka 3.8.1: it
        # sends its own part of the nonce twice.
        native = private(self.folder / "kcat.conf", "".join(f"{k}={v}\n" for k, v in of_librdkafka({**env, NAME + "MECHANISM": "PLAIN"}).items()))
        return {**env, NAME + "PROPERTIES": str(java), "KCAT_CONFIG": str(native)}


def new_password():
    return "planted-" + secrets.token_urlsafe(18)


def private(path, text):
    path.touch(0o600)
    path.write_text(text)
    return path


def somebody(user, password=None):
    """Another user, told as the run's own is. Whatever password a test plants begins with the run's, so that it is found likewise."""
    values = ["SCRAM-SHA-512", user, password or f"{os.environ[NAME + 'PASSWORD']}-{user}"]
    return dict(zip((NAME + "MECHANISM", NAME + "USER", NAME + "PASSWORD"), values))


def is_asked(bootstrap):
    """Whether whoever connects there has to log in: the brokers of the run, where it has logins."""
    return NAME + "USER" in os.environ and bool(set(bootstrap.split(",")) & set(os.environ["NODES"].split(",")))


def told(env):
    return [env[NAME + name] for name in ("MECHANISM", "USER", "PASSWORD")]


def told_here():
    """(mechanism, user, password), or None in a run without logins."""
    return told(os.environ) if NAME + "USER" in os.environ else None


def of_librdkafka(env):
    mechanism, user, password = told(env)
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password}


def of_java(env):
    mechanism, user, password = told(env)
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, user, password)}


def of_python(env):
    """For aiokafka and kafka-python."""
    mechanism, user, password = told(env)
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}


def jaas(mechanism, user, password):
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return f'{module} required username="{user}" password="{password}";'


def java(bootstrap):
    return of_java(os.environ) if is_asked(bootstrap) else {}


def properties(bootstrap):
    """The file for programs in Java, or None."""
    return os.environ[NAME + "PROPERTIES"] if is_asked(bootstrap) else None


def librdkafka(bootstrap):
    return {"bootstrap.servers": bootstrap, **(of_librdkafka(os.environ) if is_asked(bootstrap) else {})}


def python(bootstrap):
    return {"bootstrap_servers": bootstrap, **(of_python(os.environ) if is_asked(bootstrap) else {})}


def esker(bootstrap):
    """Arguments of `esker` that lead to these brokers."""
    return ["--bootstrap", bootstrap, *(["--command-config", properties(bootstrap)] if is_asked(bootstrap) else [])]


# A connection of raw requests.

HANDSHAKE, AUTHENTICATE = 17, 36


def log_in(connection):
    """SaslHandshake v1, then SaslAuthenticate v0. By PLAIN, whatever the run's mechanism: every listener here offers it."""
    _, user, password = told(os.environ)
    mechanism, token = b"PLAIN", f"\0{user}\0{password}".encode()
    steps = [(HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism), (AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)]
    for api, version, body in steps:
        if code := connection.call(api, version, body).i16():
            raise AssertionError(f"login: code {code} of API {api}")
    connection.correlation = 0  # a test counts its own requests


# Where a broker could show a password.

def forms(secret):
    """A secret as it is, and as a dump or a header would have it."""
    raw = secret.encode()
    # Base64 has three looks, by the place where the text begins.
    return [raw, raw.hex().encode(), *(base64.b64encode(b"\0" * skipped + raw)[(0, 4, 4)[skipped]:-4] for skipped in range(3))]


def cluster_secrets(nodes, work):
    """Of nodes that this run started: a node alone made it, several were given one."""
    files = [work / CLUSTER_SECRET, *(node.data_dir / CLUSTER_SECRET for node in nodes)]
    return sorted({file.read_text().strip() for file in files if file.exists()})


def leaks(broker, secrets):
    """Where the broker shows one of the secrets: its log, its metrics, its command line, its metadata."""
    places = {"its log": broker.log.read_bytes()}
    if broker.process and broker.process.poll() is None:
        places["its command line"] = pathlib.Path(f"/proc/{broker.process.pid}/cmdline").read_bytes()
        if broker.http:
            for page in ("metrics", "healthz", "readyz"):
                places[f"/{page}"] = page_of(broker.http, page)
    for path in broker.data_dir.rglob("*"):
        is_metadata = "__cluster_metadata-0" in path.parts or path.parent == broker.data_dir
        if is_metadata and path.is_file() and path.name != CLUSTER_SECRET:
            places[str(path.relative_to(broker.data_dir))] = path.read_bytes()
    return [f"a secret is in {place}" for place, content in places.items()
            if any(form in content for secret in secrets for form in forms(secret))]


def page_of(http, page):
    try:
        with urllib.request.urlopen(f"http://{http}/{page}", timeout=10) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        return error.read()
