"""What must be there before anything runs: jars, clients, baselines, the shim.

Everything lands in `.cache/bench` of the checkout and is built again when its
sources are newer. What is missing on the machine is named with the package
that has it; presets that do not need it run all the same.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
CACHE = ROOT / ".cache" / "bench"
BIN = CACHE / "bin"
JARS_VARIABLE = "KAFKA_JARS_DIR"


class Missing(Exception):
    """Something the build needs is not installed, or did not build."""


def _run(command, what, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise Missing(f"{what} did not build:\n{tail}")
    return done.stdout


def _need(program, package):
    if not shutil.which(program):
        raise Missing(f"{program} is not installed (Debian: apt install {package})")


def _stale(target, sources):
    return not target.exists() or any(s.stat().st_mtime > target.stat().st_mtime for s in sources)


def _compile(target, sources, headers, *flags):
    if _stale(target, [*sources, *headers]):
        _need("cc", "gcc libc6-dev")
        BIN.mkdir(parents=True, exist_ok=True)
        _run(["cc", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", target, *sources, *flags], target.name)
    return target


def librdkafka_client():
    """The C client. RDKAFKA_PREFIX names an installation other than the system's."""
    source = BENCH / "clients" / "librdkafka"
    prefix = os.environ.get("RDKAFKA_PREFIX")
    if prefix:
        flags = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib"]
    elif shutil.which("pkg-config") and subprocess.run(["pkg-config", "--exists", "rdkafka"]).returncode == 0:
        flags = _run(["pkg-config", "--cflags", "--libs", "rdkafka"], "rdkafka flags").split()
    elif any(Path(d, "librdkafka", "rdkafka.h").exists() for d in ("/usr/include", "/usr/local/include")):
        flags = []
    else:
        raise Missing("librdkafka is not installed (Debian: apt install librdkafka-dev)")
    return _compile(BIN / "client", sorted(source.glob("*.c")), sorted(source.glob("*.h")), *flags, "-lrdkafka", "-lpthread", "-lm")


def baseline():
    source = BENCH / "baseline" / "baseline.c"
    return _compile(BIN / "baseline", [source], [BENCH / "clients" / "librdkafka" / "histogram.h"], "-lpthread")


def slow_sync():
    return _compile(BIN / "slowsync.so", [BENCH / "slowsync" / "slowsync.c"], [], "-shared", "-fPIC", "-ldl")


def raw_client():
    source = BENCH / "clients" / "raw"
    shared = BENCH / "clients" / "librdkafka"
    headers = [source / "client.h", shared / "histogram.h", shared / "program.h"]
    return _compile(BIN / "raw", sorted(source.glob("*.c")), headers)


def franz_client():
    source, target = BENCH / "clients" / "franz", BIN / "franz"
    if _stale(target, [*source.glob("*.go"), source / "go.sum"]):
        _need("go", "golang, or https://go.dev/dl")
        BIN.mkdir(parents=True, exist_ok=True)
        _run(["go", "build", "-buildvcs=false", "-trimpath", "-o", target, "."], "franz", cwd=source)
    return target


def kafka_jars():
    """Directory of Apache Kafka's jars, through Maven unless KAFKA_JARS_DIR names one."""
    _need("java", "openjdk-17-jre-headless")
    given = os.environ.get(JARS_VARIABLE)
    jars = Path(given) if given else CACHE / "kafka-jars"
    if any(jars.glob("kafka_2.13-*.jar")):
        return jars
    if given:
        raise Missing(f"{JARS_VARIABLE}={given} holds no kafka_2.13 jar")
    _need("mvn", "maven")
    print("fetching Apache Kafka's jars through Maven (about 55 MB, once)", file=sys.stderr)
    _run(["mvn", "-q", "-B", "-f", BENCH / "kafka" / "pom.xml", f"-Djars.dir={jars}", "package"], "Apache Kafka")
    return jars


def _java(name, libraries):
    """Classes of one Java client, compiled against directories of jars; gives its class path."""
    source, target = BENCH / "clients" / name, CACHE / f"{name}-classes"
    classpath = ":".join(f"{jars}/*" for jars in libraries)
    files = sorted(source.glob("*.java"))
    if _stale(target / "bench" / f"{files[0].stem}.class", files):
        _need("javac", "openjdk-17-jdk-headless")
        _run(["javac", "-Xlint:all", "-cp", classpath, "-d", target, *files], f"the {name} client")
    return f"{target}:{classpath}"


def java_client():
    """Class path of the Java client's load."""
    return _java("java", [kafka_jars()])


def streams_client():
    """Class path of the Kafka Streams load; its library is fetched when first needed."""
    jars = CACHE / "streams-jars"
    if not any(jars.glob("kafka-streams-*.jar")):
        _need("mvn", "maven")
        print("fetching Kafka Streams through Maven (about 75 MB, once)", file=sys.stderr)
        _run(["mvn", "-q", "-B", "-f", BENCH / "kafka" / "streams.xml", f"-Djars.dir={jars}", "package"], "Kafka Streams")
    return _java("streams", [kafka_jars(), jars])


def before_binary(given):
    if not given:
        raise Missing("name the other build of Esker with --before")
    return esker_binary(given)


def esker_binary(given):
    path = Path(given or os.environ.get("ESKER") or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "esker")
    if not path.exists():
        raise Missing(f"no broker at {path}: build it with cargo build --release, or name it with --esker")
    return path.resolve()
