//! The two brokers, with the same users, the same rules and the same two listeners: one where users log in, one where nobody does.
//!
//! Owns the process it started and its directory, and ends and removes both. Kafka's jars come from KAFKA_JARS, as
//! tests/clients has them below .cache otherwise.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::people::{PEOPLE, password};

/// A JVM on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(30);
/// Below those that the system gives to connections.
const PORTS: std::ops::Range<u16> = 21_000..21_990;

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

pub(crate) struct Broker {
    child: Child,
    dir: PathBuf,
    /// Where users log in.
    pub(crate) named: String,
    /// Where everybody is ANONYMOUS.
    pub(crate) open: String,
}

impl Broker {
    /// Esker, as ESKER names it.
    pub(crate) fn esker() -> io::Result<Broker> {
        let binary = std::env::var("ESKER").map_err(|_| {
            io::Error::other("ESKER is not set; tests/security/matrix builds and names it")
        })?;
        let (dir, ports) = (directory("esker")?, ports()?);
        let settings = format!(
            "{}log.dirs={}\nesker.http.listen=off\nlisteners={}\n\
             listener.security.protocol.map=NAMED:SASL_PLAINTEXT,OPEN:PLAINTEXT\n",
            common(),
            dir.join("data").display(),
            listeners(ports),
        );
        let file = dir.join("server.properties");
        fs::write(&file, settings)?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(&file);
        start(command, dir, ports)
    }

    /// Apache Kafka 4.3, controller and broker in one, as the other is.
    pub(crate) fn kafka() -> io::Result<Broker> {
        let jars = std::env::var("KAFKA_JARS").unwrap_or(".cache/clients/jars-4.3.0".to_owned());
        if !Path::new(&jars).is_dir() {
            return Err(io::Error::other(format!(
                "{jars}: no jars of Kafka 4.3.0; name their directory with KAFKA_JARS"
            )));
        }
        let (dir, ports) = (directory("kafka")?, ports()?);
        let controller = format!("127.0.0.1:{}", ports[2]);
        let settings = format!(
            "{}log.dirs={}\nlisteners={},CONTROLLER://{controller}\n\
             listener.security.protocol.map=NAMED:SASL_PLAINTEXT,OPEN:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT\n\
             controller.quorum.bootstrap.servers={controller}\ncontroller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=NAMED\n\
             sasl.mechanism.inter.broker.protocol=PLAIN\nsasl.mechanism.controller.protocol=PLAIN\n\
             listener.name.controller.plain.sasl.jaas.config={}\n",
            common(),
            dir.join("data").display(),
            listeners(ports),
            jaas(),
        );
        let file = dir.join("server.properties");
        fs::write(&file, settings)?;
        let java = || {
            let mut command = Command::new("java");
            command.args(["-Xmx512m", "-XX:+UseSerialGC", "-cp", &format!("{jars}/*")]);
            command
        };
        let formatted = java()
            .args(["kafka.tools.StorageTool", "format", "--standalone"])
            .args(["-t", "bWF0cml4LW9mLXJpZ2h0cw", "-c"])
            .arg(&file)
            .output()?;
        if !formatted.status.success() {
            let why = String::from_utf8_lossy(&formatted.stderr).into_owned();
            return Err(io::Error::other(format!("Kafka's format failed: {why}")));
        }
        let mut command = java();
        command.arg("kafka.Kafka").arg(&file);
        start(command, dir, ports)
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let asked = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let until = Instant::now() + STOP_MAX;
        while asked.is_ok() && self.is_alive() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::env::var_os("TRESPASS_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Settings that mean the same to both. Groups begin at once; topics come to be by asking, so that this is asked about, too. Records
/// stay, though they say that they are old.
fn common() -> String {
    format!(
        "process.roles=broker,controller\nnode.id=1\nnum.partitions=1\ndefault.replication.factor=1\n\
         offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n\
         auto.create.topics.enable=true\nlog.retention.ms=-1\nmin.insync.replicas=1\n\
         authorizer.class.name={AUTHORIZER}\nsuper.users=User:super\n\
         sasl.enabled.mechanisms=PLAIN\nlistener.name.named.plain.sasl.jaas.config={}\n",
        jaas()
    )
}

/// The users of PLAIN; the first is also the broker towards itself.
fn jaas() -> String {
    let users = PEOPLE.iter().filter(|who| who.logs_in);
    let users: Vec<String> = users
        .map(|who| format!("user_{}=\"{}\"", who.name, password(who.name)))
        .collect();
    format!(
        "{PLAIN} required username=\"super\" password=\"{}\" {};",
        password("super"),
        users.join(" ")
    )
}

fn listeners(ports: [u16; 3]) -> String {
    format!(
        "NAMED://127.0.0.1:{},OPEN://127.0.0.1:{}",
        ports[0], ports[1]
    )
}

fn directory(name: &str) -> io::Result<PathBuf> {
    let name = format!("trespass-{name}-{}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Ports that are free now; both brokers may look for some at once, so each process begins elsewhere.
fn ports() -> io::Result<[u16; 3]> {
    let at = std::process::id() as usize % PORTS.len();
    let all: Vec<u16> = PORTS.collect();
    let (before, behind) = all.split_at(at);
    let mut free = behind
        .iter()
        .chain(before)
        .copied()
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let mut next = || free.next().ok_or(io::Error::other("no free port"));
    Ok([next()?, next()?, next()?])
}

fn start(mut command: Command, dir: PathBuf, ports: [u16; 3]) -> io::Result<Broker> {
    let log = fs::File::create(dir.join("log"))?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let mut broker = Broker {
        child: command.spawn()?,
        dir,
        named: format!("127.0.0.1:{}", ports[0]),
        open: format!("127.0.0.1:{}", ports[1]),
    };
    let until = Instant::now() + START_MAX;
    while Instant::now() < until && broker.is_alive() {
        // An open port is enough: requests that come too early are asked again.
        if std::net::TcpStream::connect(&broker.named).is_ok() {
            return Ok(broker);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = fs::read_to_string(broker.log()).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(10)..].join("\n");
    Err(io::Error::other(format!(
        "the broker did not start:\n{last}"
    )))
}
