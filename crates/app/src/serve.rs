//! `esker serve`: from arguments and a file to the settings of a broker, then the broker.
//!
//! Later sources win: the file, the flags, `--set`. Everything is checked before a directory is touched.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use broker::{OpenError, StartError};
use clap::Args;
use config::{Broker, Format, Listener, Machine, Settings, SettingsError, Voter};
use env::{Env, logs};

use crate::allocator;
use crate::failure::Failure;
use crate::{http, moment, systemd};

#[derive(Args, Debug, Default)]
pub(crate) struct ServeArgs {
    /// Settings file: a Kafka server.properties, or TOML when its name ends in .toml
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directories for the data, created if missing; several are separated by commas [default: ./data]
    #[arg(
        short,
        long,
        visible_alias = "log-dirs",
        value_name = "DIR",
        value_delimiter = ','
    )]
    pub(crate) data_dir: Vec<String>,
    /// Address to listen on, also as Kafka writes it: PLAINTEXT://HOST:PORT; may be repeated [default: 127.0.0.1:9092]
    #[arg(short, long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) listen: Vec<String>,
    /// Address that clients are told to use, when it is not the one we listen on; the first is for the first --listen, and so on
    #[arg(short, long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) advertise: Vec<String>,
    /// Number of this node; each node of a cluster has another one [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) node_id: Option<u16>,
    /// The nodes that keep the metadata, this one among them; the same list on each. Without --listen a node listens at its own address
    #[arg(long, value_name = "ID@HOST:PORT", value_delimiter = ',')]
    pub(crate) voters: Vec<String>,
    /// Tasks of this node: broker, controller or both [default: broker,controller]
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    pub(crate) roles: Vec<String>,
    /// Where to ask for the controllers, for a node that is none of the voters
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) bootstrap_controller: Vec<String>,
    /// File with the secret by which the nodes of a cluster prove themselves to each other [default: cluster.secret in the data
    /// directory, which the first node makes]
    #[arg(long, value_name = "FILE")]
    pub(crate) cluster_secret: Option<PathBuf>,
    /// Listen beyond this machine without passwords and encryption, as PLAINTEXT:// before an address says too
    #[arg(long)]
    pub(crate) insecure: bool,
    /// A broker setting, such as num.partitions=3; wins over the file
    #[arg(short, long, visible_alias = "override", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<String>,
    /// Form of the lines on standard error: text, or json for collectors [default: text]
    #[arg(long, value_name = "FORM")]
    pub(crate) log_format: Option<String>,
}

fn assignment(text: &str) -> Result<String, String> {
    text.parse::<crate::arguments::Pair>()
        .map(|_| text.to_owned())
}

pub(crate) fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let env = Env::real();
    let file = match &args.config {
        Some(path) => Some((path.display().to_string(), read_text(&env, path)?)),
        None => None,
    };
    let config = settings(
        args,
        file.as_ref()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    )?;
    open_log(&env, &config)?;
    if let Some(warning) = config.warning() {
        tracing::warn!(target: logs::BROKER, "{warning}");
    }
    if let Some(warning) = config.warning_of_listeners() {
        tracing::warn!(target: logs::BROKER, "{warning}");
    }
    if let Some(warning) = config.warning_of_nodes() {
        tracing::warn!(target: logs::BROKER, "{warning}");
    }
    if let Some(warning) = config.warning_of_rules() {
        tracing::warn!(target: logs::BROKER, "{warning}");
    }
    if let Some(warning) = config.warning_of_unclean() {
        tracing::warn!(target: logs::BROKER, "{warning}");
    }
    if let Some(odd) = moment::odd_clock(env.clock.wall_ms().0) {
        tracing::warn!(target: logs::BROKER, "{odd}");
    }
    if let Some(warning) = config.memory.warning() {
        tracing::warn!(target: logs::BROKER, "{warning}");
    }
    run(env, config)
}

/// From here on what the broker reports goes to standard error, in the form and from the levels up that the settings name.
fn open_log(env: &Env, config: &Broker) -> Result<(), Failure> {
    let text = |name: &str| config.text(name).unwrap_or_default();
    let wrong = |name: &str, why: &dyn std::fmt::Display| Failure::usage(format!("{name}: {why}"));
    let level = env.loggers.apply(&text("esker.log.level"));
    level.map_err(|why| wrong("esker.log.level", &why))?;
    let format: logs::Format = (text("esker.log.format").parse())
        .map_err(|why: String| wrong("esker.log.format", &why))?;
    logs::subscribe(Arc::clone(&env.loggers), format, logs::Stamps::Wall);
    Ok(())
}

fn settings(args: &ServeArgs, file: Option<(&str, &str)>) -> Result<Broker, Failure> {
    let mut settings = Settings::default();
    if let Some((name, text)) = file {
        let read = settings.read(text, Format::of(name));
        read.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    }
    let listeners = named(&args.listen);
    let one = |value: Option<String>| value.into_iter().collect::<Vec<String>>();
    let flags = [
        ("--data-dir", "log.dirs", args.data_dir.clone()),
        ("--listen", "listeners", listeners.clone()),
        (
            "--advertise",
            "advertised.listeners",
            named(&args.advertise),
        ),
        (
            "--log-format",
            "esker.log.format",
            one(args.log_format.clone()),
        ),
        (
            "--node-id",
            "node.id",
            one(args.node_id.map(|id| id.to_string())),
        ),
        ("--voters", "controller.quorum.voters", args.voters.clone()),
        ("--roles", "process.roles", args.roles.clone()),
        (
            "--bootstrap-controller",
            "controller.quorum.bootstrap.servers",
            args.bootstrap_controller.clone(),
        ),
        (
            "--cluster-secret",
            "esker.cluster.secret.file",
            one(args
                .cluster_secret
                .as_ref()
                .map(|path| path.display().to_string())),
        ),
    ];
    for (flag, name, values) in flags {
        if values.is_empty() {
            continue;
        }
        let says_it_too = |text: &&String| {
            text.split_once('=')
                .is_some_and(|(set, _)| set.trim() == name)
        };
        if let Some(set) = args.set.iter().find(says_it_too) {
            return Err(Failure::usage(format!(
                "{flag} and --set {set} say the same thing: give one of them"
            )));
        }
        settings.put(name, &values.join(",")).map_err(wrong)?;
    }
    for text in &args.set {
        settings.assign(text).map_err(wrong)?;
    }
    if settings.get("listeners").is_none()
        && let Some(own) = Voter::own(&settings)
    {
        check_word(args, "--voters", &own.address())?;
        let address = format!("PLAINTEXT://{}", own.address());
        settings.put("listeners", &address).map_err(wrong)?;
    }
    let unspoken = args
        .listen
        .iter()
        .filter(|address| !address.contains("://"));
    for address in unspoken {
        check_word(args, "--listen", address)?;
    }
    if args.listen.len() > 1 && settings.get(PROTOCOL_MAP).is_none() {
        let of_ours = |listener: &String| {
            let (name, _) = listener.split_once("://")?;
            name.starts_with("PLAINTEXT")
                .then(|| format!("{name}:PLAINTEXT"))
        };
        let pairs: Vec<String> = listeners.iter().filter_map(of_ours).collect();
        if !pairs.is_empty() {
            settings
                .put(PROTOCOL_MAP, &pairs.join(","))
                .map_err(wrong)?;
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let machine = Machine {
        cores,
        memory_bytes: Env::memory_bytes(),
        descriptors: Env::descriptors(),
    };
    let config = Broker::new(settings, machine).map_err(wrong)?;
    config.located(|dir| {
        std::path::absolute(dir)
            .map_err(|error| Failure::new(format!("log.dirs: {}: {error}", dir.display())))
    })
}

/// Beyond this machine a listener is plain by the word of the user alone.
fn check_word(args: &ServeArgs, flag: &str, address: &str) -> Result<(), Failure> {
    let is_far = Listener::parse(address).is_ok_and(|listener| !listener.is_loopback());
    if args.insecure || !is_far {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{flag} {address}: anybody who reaches this address could read and write everything. Accept that in a network that you trust, with \
         --insecure or as --listen PLAINTEXT://{address}, or have users log in: --listen SASL_PLAINTEXT://{address} (docs/security.md)"
    )))
}

const PROTOCOL_MAP: &str = "listener.security.protocol.map";

/// Addresses with the names of their listeners; those without get one each, as no two may have the same.
fn named(addresses: &[String]) -> Vec<String> {
    let mut unnamed = 0;
    let with_name = |address: &String| {
        if address.contains("://") {
            return address.clone();
        }
        unnamed += 1;
        match unnamed {
            1 => format!("PLAINTEXT://{address}"),
            number => format!("PLAINTEXT_{number}://{address}"),
        }
    };
    addresses.iter().map(with_name).collect()
}

fn wrong(error: SettingsError) -> Failure {
    Failure::usage(error)
}

fn read_text(env: &Env, path: &std::path::Path) -> Result<String, Failure> {
    /// Larger than any settings file, smaller than a data file named by mistake.
    const FILE_BYTES_MAX: u64 = 4 << 20;
    let unreadable =
        |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", path.display()));
    let file = env
        .disk
        .open(path, env::disk::Open::Read)
        .map_err(unreadable)?;
    let len = file.len().map_err(unreadable)?;
    if len > FILE_BYTES_MAX {
        return Err(Failure::new(format!(
            "{} has {len} bytes: no settings file",
            path.display()
        )));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|_| Failure::new(format!("{} is not text", path.display())))
}

/// Runs the broker until it is told to stop.
fn run(env: Env, config: Broker) -> Result<(), Failure> {
    allocator::keep_freed_memory(config.memory.limit);
    env::at_rest(allocator::give_back);
    let dirs = config.log_dirs.clone();
    let serves_clients = config.quorum.roles.broker;
    let life = Arc::new(Mutex::new(Life::Starting));
    outlive_file_limit()?;
    stop_on_signal(Arc::clone(&life))?;
    let window = http::open(&env, &config)?;
    let broker = broker::Broker::start(&env, config).map_err(not_started)?;
    window.open(broker.watch());
    if broker.rounds_replayed > 0 {
        tracing::warn!(
            target: logs::BROKER,
            "recovered {} journal rounds of a stop that was not clean",
            broker.rounds_replayed
        );
    }
    tracing::info!(
        target: logs::BROKER,
        version = env!("CARGO_PKG_VERSION"),
        listeners = ?broker.addresses,
        log_dirs = ?dirs,
        "started",
    );
    on_started(&life, broker.stop_handle());
    systemd::ready(window);
    // Nobody may be reading; the broker runs all the same.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(banner(&broker.addresses, &dirs, serves_clients).as_bytes());
    let _ = out.flush();
    drop(out);
    // This thread only waits from now on.
    allocator::give_back();
    broker.join().map_err(Failure::new)
}

fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Open(OpenError::Locked { .. }) => {
            Failure::new(error).hint("stop that broker, or give this one another --data-dir")
        }
        StartError::Open(OpenError::Kafkas { .. } | OpenError::Unknown { .. }) => {
            Failure::new(error)
                .hint("give this broker a --data-dir of its own; clients bring records over")
        }
        error => Failure::new(error),
    }
}

/// A write beyond the limit of file sizes is an error that is reported, and not the end of the process.
fn outlive_file_limit() -> Result<(), Failure> {
    let is_met = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGXFSZ, is_met)
        .map(|_| ())
        .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))
}

/// How far the broker is, for whoever gets a signal.
enum Life {
    Starting,
    /// Told to stop while it started. It stops once it runs: ended now, it would leave rounds to replay.
    Unwanted,
    Running(Box<dyn Fn() + Send>),
}

/// SIGTERM, SIGINT and SIGHUP (its terminal is closed) stop the broker cleanly; a second SIGTERM or SIGINT ends it at once.
/// Under `nohup`, which has SIGHUP ignored, it stays so.
fn stop_on_signal(life: Arc<Mutex<Life>>) -> Result<(), Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let all = [SIGTERM, SIGINT].into_iter().chain(hangup);
    let mut signals = signal_hook::iterator::Signals::new(all)
        .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))?;
    // Lives as long as the process: nobody waits for it.
    #[allow(clippy::disallowed_methods)]
    std::thread::spawn(move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            if is_stopping {
                if signal != SIGHUP {
                    std::process::exit(130);
                }
                continue;
            }
            is_stopping = true;
            systemd::stopping();
            let mut life = life.lock().unwrap_or_else(PoisonError::into_inner);
            match &*life {
                Life::Running(stop) => {
                    tracing::info!(target: logs::BROKER, "stopping");
                    stop();
                }
                Life::Starting | Life::Unwanted => {
                    tracing::warn!(target: logs::BROKER, "stopping once the start is done; once more ends it now");
                    *life = Life::Unwanted;
                }
            }
        }
    });
    Ok(())
}

/// The broker runs; stops it where that was asked for before.
fn on_started(life: &Mutex<Life>, stop: impl Fn() + Send + 'static) {
    let mut life = life.lock().unwrap_or_else(PoisonError::into_inner);
    if let Life::Unwanted = *life {
        stop();
    }
    *life = Life::Running(Box::new(stop));
}

/// True if this process was started with a signal ignored. Where the system does not say, it was not.
#[allow(clippy::disallowed_methods)] // asks the kernel about the process, before there is a broker
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The lines that a person wants to see once the broker is up.
fn banner(addresses: &[SocketAddr], dirs: &[PathBuf], serves_clients: bool) -> String {
    let bootstrap = match addresses.first().map(|first| dialled(*first).to_string()) {
        Some(first) if first != "127.0.0.1:9092" => format!(" -b {first}"),
        _ => String::new(),
    };
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    let first_try = if serves_clients {
        format!(
            "try: echo hello | esker produce greetings{bootstrap}\n     esker consume greetings{bootstrap}"
        )
    } else {
        // A controller alone has no topics for clients.
        format!("try: esker cluster quorum{bootstrap}")
    };
    format!(
        "esker {} listens on {}\ndata in {}\n{first_try}\n",
        env!("ESKER_VERSION"),
        addresses.join(", "),
        dirs.join(", "),
    )
}

/// Where somebody on this machine finds a listener; one that listens on all addresses is on the loopback too.
fn dialled(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &ServeArgs, file: Option<(&str, &str)>) -> Result<Broker, String> {
        settings(args, file).map_err(|failure| failure.to_string())
    }

    fn here(dir: &str) -> PathBuf {
        std::path::absolute(dir).unwrap()
    }

    fn args(set: &[&str]) -> ServeArgs {
        ServeArgs {
            set: set.iter().map(|text| (*text).to_owned()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn without_arguments_the_broker_is_local_and_keeps_its_data_here() {
        let config = check(&args(&[]), None).unwrap();
        assert_eq!(
            config.log_dirs,
            [here("data")],
            "Kafka's tools name directories absolutely"
        );
        let banner = banner(&["127.0.0.1:9092".parse().unwrap()], &config.log_dirs, true);
        assert!(
            banner.contains("127.0.0.1:9092") && banner.contains("/data"),
            "{banner}"
        );
        assert!(
            !banner.contains("-b "),
            "the default address needs no flag: {banner}"
        );
    }

    #[test]
    fn flags_win_over_the_file_and_set_wins_over_both() {
        let file = (
            "server.properties",
            "num.partitions=3\nlog.dirs=/a\nlisteners=PLAINTEXT://:9093\n",
        );
        let mut args = args(&["num.partitions=5"]);
        args.data_dir = vec!["x".into(), "y".into()];
        args.listen = vec!["127.0.0.1:9999".into()];
        let config = check(&args, Some(file)).unwrap();
        assert_eq!(config.partitions_default, 5);
        assert_eq!(config.log_dirs, [here("x"), here("y")]);
        assert_eq!(config.listeners[0].address(), "127.0.0.1:9999");
        let bound = ["127.0.0.1:9999".parse().unwrap()];
        assert!(banner(&bound, &config.log_dirs, true).contains("-b 127.0.0.1:9999"));
        let everywhere = ["[::]:9999".parse().unwrap()];
        assert!(banner(&everywhere, &config.log_dirs, true).contains("-b [::1]:9999"));
    }

    #[test]
    fn a_flag_takes_an_address_with_or_without_the_name_of_its_listener() {
        for address in ["example.org:7", "PLAINTEXT://example.org:7"] {
            let args = ServeArgs {
                advertise: vec![address.into()],
                ..Default::default()
            };
            assert_eq!(
                check(&args, None).unwrap().advertised[0].host,
                "example.org"
            );
        }
    }

    #[test]
    fn several_addresses_get_a_listener_each() {
        let mut args = args(&[]);
        args.listen = vec!["127.0.0.1:1".into(), "[::1]:2".into(), "10.0.0.7:3".into()];
        args.advertise = vec!["here:1".into(), "there:2".into()];
        let error = check(&args, None).unwrap_err();
        assert!(error.contains("PLAINTEXT://10.0.0.7:3"), "{error}");
        args.insecure = true;
        let config = check(&args, None).unwrap();
        let shown = |listeners: &[config::Listener]| -> Vec<String> {
            let shown = |it: &config::Listener| format!("{} {}", it.name, it.address());
            listeners.iter().map(shown).collect()
        };
        assert_eq!(
            shown(&config.listeners),
            [
                "PLAINTEXT 127.0.0.1:1",
                "PLAINTEXT_2 [::1]:2",
                "PLAINTEXT_3 10.0.0.7:3"
            ]
        );
        assert_eq!(
            shown(&config.advertised),
            ["PLAINTEXT here:1", "PLAINTEXT_2 there:2"]
        );
    }

    #[test]
    fn a_node_among_voters_listens_at_its_own_address() {
        let three = ["1@127.0.0.1:9092", "2@127.0.0.1:9192"].map(String::from);
        let args = ServeArgs {
            node_id: Some(2),
            voters: three.to_vec(),
            ..Default::default()
        };
        let config = check(&args, None).unwrap();
        assert_eq!(config.listeners[0].address(), "127.0.0.1:9192");
        assert_eq!(config.quorum.voters.len(), 2);
        assert!(!config.quorum.is_alone(config.node_id));
        let elsewhere = ServeArgs {
            voters: ["1@a:9092", "2@b:9192"].map(String::from).to_vec(),
            listen: vec!["0.0.0.0:9192".into()],
            ..args
        };
        let error = check(&elsewhere, None).unwrap_err();
        assert!(error.contains("--insecure"), "{error}");
        let accepted = ServeArgs {
            insecure: true,
            ..elsewhere
        };
        let config = check(&accepted, None).unwrap();
        assert!(config.warning_of_listeners().is_some());
        assert!(config.warning_of_nodes().is_none());
        let observer = ServeArgs {
            node_id: Some(4),
            roles: vec!["broker".into()],
            bootstrap_controller: vec!["127.0.0.1:9192".into()],
            ..Default::default()
        };
        let config = check(&observer, None).unwrap();
        assert_eq!(config.listeners[0].address(), "127.0.0.1:9092");
        assert_eq!(config.quorum.servers, [("127.0.0.1".to_owned(), 9192)]);
    }

    #[test]
    fn a_flag_and_a_setting_that_say_the_same_are_refused() {
        let listen = |set: &str| {
            let args = ServeArgs {
                listen: vec!["127.0.0.1:1".into()],
                ..args(&[set])
            };
            check(&args, None)
        };
        let error = listen("listeners=PLAINTEXT://:2").unwrap_err();
        assert!(
            error.contains("--listen") && error.contains("listeners="),
            "{error}"
        );
        assert!(listen("num.partitions=2").is_ok());
    }

    #[test]
    fn toml_is_read_by_the_name_of_the_file() {
        let config = check(&args(&[]), Some(("esker.toml", "num.partitions = 4\n"))).unwrap();
        assert_eq!(config.partitions_default, 4);
    }

    #[test]
    fn a_mistake_names_the_setting_and_the_nearest_known_one() {
        let error = check(&args(&["num.partition=3"]), None).unwrap_err();
        assert!(
            error.contains("num.partition") && error.contains("num.partitions"),
            "{error}"
        );
        let error = check(&args(&[]), Some(("s.properties", "num.partitions=many\n"))).unwrap_err();
        assert!(
            error.contains("s.properties") && error.contains("num.partitions"),
            "{error}"
        );
        assert!(
            check(
                &ServeArgs {
                    listen: vec!["nowhere".into()],
                    ..Default::default()
                },
                None
            )
            .is_err()
        );
    }
}
