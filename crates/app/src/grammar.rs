//! The grammar of the command line: the list of verbs, and which global flags mean something to each.
//!
//! Each verb keeps its own arguments beside its code. Where Kafka's tools have a name for a thing, that name is accepted too.

use clap::parser::ValueSource;
use clap::{ArgMatches, Parser, Subcommand};

use crate::arguments::Global;
use crate::failure::Failure;
use crate::{
    acl, bench, clients, cluster, consume, group, inspect, produce, repair, serve, tier, topic,
    txn, user,
};

/// A durable log that speaks the Kafka protocol.
#[derive(Debug, Parser)]
#[command(
    name = "esker",
    version = env!("ESKER_VERSION"),
    propagate_version = true,
    max_term_width = 110
)]
#[command(
    after_help = "Start a broker with `esker serve`, then try `esker produce greetings` and `esker consume greetings`."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Refuses global flags that mean nothing to the verb: who gives one expects something of it.
pub(crate) fn check_used(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((verb, of_verb)) = matches.subcommand() else {
        return Ok(());
    };
    let unused: &[&str] = match verb {
        "serve" | "completions" => &["bootstrap", "json", "timeout", "command_config"],
        "inspect" | "repair" => &["bootstrap", "timeout", "command_config"],
        "tier" => &["bootstrap", "command_config"],
        _ => &[],
    };
    let is_given = |id: &&&str| of_verb.value_source(id) == Some(ValueSource::CommandLine);
    match unused.iter().find(is_given) {
        Some(id) => Err(Failure::usage(format!(
            "--{} means nothing to `esker {verb}`",
            id.replace('_', "-")
        ))),
        None => Ok(()),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a broker
    #[command(visible_alias = "server")]
    Serve(serve::ServeArgs),
    /// Create, list, describe, alter, delete and trim topics
    #[command(visible_alias = "topics")]
    Topic(topic::TopicArgs),
    /// List, describe, reset and delete consumer groups
    #[command(visible_alias = "groups")]
    Group(group::GroupArgs),
    /// List, describe and abort transactions
    #[command(visible_alias = "transactions")]
    Txn(txn::TxnArgs),
    /// Add, list and delete users, and change their passwords
    #[command(visible_alias = "users")]
    User(user::UserArgs),
    /// Add, list and delete rules of who may do what
    #[command(visible_alias = "acls")]
    Acl(acl::AclArgs),
    /// Show the state of the cluster, compare replicas, and change which nodes vote
    Cluster(cluster::ClusterArgs),
    /// List clients that push their metrics, and show what they pushed last
    #[command(visible_alias = "clients")]
    Client(clients::ClientArgs),
    /// Write lines to a topic
    Produce(produce::ProduceArgs),
    /// Read records of a topic
    Consume(consume::ConsumeArgs),
    /// Look into data files and verify their checksums, without a broker
    Inspect(inspect::InspectArgs),
    /// Tell what keeps a damaged data directory closed, and let it open without what is lost
    Repair(repair::RepairArgs),
    /// Check whether a store of objects is fit for old segments
    Tier(tier::TierArgs),
    /// Measure a broker
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell
    Completions {
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn check(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn examples_of_every_verb_parse() {
        for line in [
            "esker serve",
            "esker serve --data-dir a,b --listen 0.0.0.0:9092 --advertise me:9092 --set num.partitions=3 --set log.retention.ms=-1",
            "esker serve --config server.properties",
            "esker serve --node-id 2 --voters 1@h:1,2@i:1,3@j:1 --insecure",
            "esker serve --node-id 4 --roles broker --bootstrap-controller h:1,i:1",
            "esker topic create t -p 6 --replication-factor 1 -c retention.ms=1000 --if-not-exists",
            "esker topic list --json",
            "esker topic describe t u",
            "esker topic alter t --partitions 12 --set retention.ms=1 --unset segment.bytes",
            "esker topic alter t --add-config a=b --delete-config c",
            "esker topic delete t u",
            "esker topic trim t --before 10 --partition 0",
            "esker topics list --bootstrap-server h:1",
            "esker user add alice --allow write,describe:topic:orders-* --allow read:group:billing",
            "esker user add alice --password-file /dev/fd/3",
            "esker user list --json",
            "esker user passwd alice --ask",
            "esker user delete alice bob --keep-rules",
            "esker acl add --principal alice --operation Read,Describe --topic orders- --prefixed",
            "esker acl add --allow-principal User:* --operation all --cluster --deny --allow-host 10.0.0.0/8",
            "esker acl list --topic orders-1 --match --json",
            "esker acl delete --principal alice --group billing",
            "esker acl delete --all",
            "esker user list --command-config admin.properties",
            "esker client list",
            "esker cluster status --json",
            "esker cluster brokers -b h:1",
            "esker cluster quorum",
            "esker cluster add-voter 2 --address h:1",
            "esker cluster remove-voter 2",
            "esker cluster unregister 3",
            "esker cluster verify t --partition 0,2 --json",
            "esker client describe orders-1 --metric org.apache.kafka.producer.",
            "esker produce t -k : -H a=b --partition 3 --codec zstd --acks all access.log",
            "esker consume t --from beginning -n 3 -e -f %o --partition 0,1",
            "esker consume t --group g -e",
            "esker consume t --from -10",
            "esker consume t -o @1700000000000",
            "esker inspect data --batches",
            "esker repair data",
            "esker repair data other --accept-loss",
            "esker repair data --new-quorum",
            "esker tier check file:///mnt/archive --json",
            "esker bench l11 --json --runs 3",
            "esker bench a24 --connections 1,8 --seconds 2 -c esker.durability=os",
            "esker completions bash",
        ] {
            if let Err(error) = check(line) {
                panic!("{line}: {error}");
            }
        }
    }

    /// Commands of `esker` in a page, and whether they are whole: those of blocks are, in back quotes a verb may be named alone.
    fn commands(page: &str) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        let mut is_fenced = false;
        for line in page.lines() {
            is_fenced ^= line.starts_with("```");
            let is_block = is_fenced || line.starts_with("    ");
            let parts: Vec<&str> = if is_block {
                let parts = line.split(['|', '>', '&', '#']);
                parts
                    .map(|part| part.split_once("$ ").map_or(part, |(_, own)| own).trim())
                    .collect()
            } else {
                line.split('`').skip(1).step_by(2).collect()
            };
            let ours = parts.into_iter().filter(|part| part.starts_with("esker "));
            found.extend(ours.map(|part| (part.to_owned(), is_block)));
        }
        found
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // pages of the repository, not files of a broker
    fn commands_of_the_documents_parse() {
        use clap::error::ErrorKind;

        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folders =
            ["docs", "docs/decisions"].map(|folder| root.join(folder).read_dir().unwrap());
        let pages = folders
            .into_iter()
            .flatten()
            .map(|page| page.unwrap().path());
        let pages = pages.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
        let mut count = 0;
        for path in pages.chain([root.join("README.md")]) {
            let page = std::fs::read_to_string(&path).unwrap();
            for (command, is_whole) in commands(&page) {
                // Numbers that the reader knows, and text in quotes that a shell keeps together.
                let words = command.split('\'').enumerate().flat_map(|(at, part)| {
                    let words: Vec<&str> = if at % 2 == 0 {
                        part.split_whitespace().collect()
                    } else {
                        vec![part]
                    };
                    words
                });
                let words = words.map(|word| if word == "N" { "2" } else { word });
                let outcome = Cli::try_parse_from(words);
                let is_name = |kind| {
                    use ErrorKind::{
                        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand,
                        MissingRequiredArgument, MissingSubcommand,
                    };
                    matches!(
                        kind,
                        DisplayHelp
                            | DisplayHelpOnMissingArgumentOrSubcommand
                            | MissingRequiredArgument
                            | MissingSubcommand
                    )
                };
                if let Err(error) = outcome
                    && (is_whole || !is_name(error.kind()))
                {
                    panic!("{}: {command}: {error}", path.display());
                }
                count += 1;
            }
        }
        assert!(50 < count, "only {count} commands were found");
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "esker",
            "esker fly",
            "esker topic create",
            "esker topic create t --partitions x",
            "esker cluster",
            "esker cluster start",
            "esker topic create t --config novalue",
            "esker topic alter t",
            "esker topic trim t",
            "esker produce",
            "esker produce t --codec rar",
            "esker produce t --acks 2",
            "esker consume t --from yesterday",
            "esker consume t -f %Q",
            "esker bench l99",
            "esker serve --set nothing",
            "esker repair data --accept-loss --new-quorum",
            "esker group list --state foo",
            "esker group list --type foo",
            "esker txn list --state foo",
            "esker consume t -p 0-1",
            "esker consume t -p -1",
            "esker consume t -g g -p 0",
        ] {
            assert!(check(line).is_err(), "{line} was accepted");
        }
    }

    #[test]
    fn a_number_below_zero_is_understood_and_refused() {
        for line in [
            "esker consume t -p -1",
            "esker produce t -p -1",
            "esker topic create t -p -1",
            "esker topic trim t --before end -p -1",
        ] {
            let error = check(line).unwrap_err();
            assert_eq!(
                error.kind(),
                clap::error::ErrorKind::ValueValidation,
                "{line}"
            );
        }
    }

    #[test]
    fn flags_that_mean_nothing_to_a_verb_are_refused() {
        let check = |line: &str| {
            let matches = Cli::command().try_get_matches_from(line.split_whitespace());
            check_used(&matches.unwrap())
        };
        for line in [
            "esker serve --json",
            "esker server -b h:1",
            "esker --timeout 3 serve",
            "esker inspect data -b h:1",
            "esker repair data --timeout 1",
            "esker completions bash --json",
            "esker serve --command-config f",
            "esker --command-config f inspect data",
        ] {
            assert!(check(line).is_err(), "{line}");
        }
        for line in [
            "esker serve -d a",
            "esker inspect data --json",
            "esker topic list --json",
        ] {
            assert!(check(line).is_ok(), "{line}");
        }
    }
}
