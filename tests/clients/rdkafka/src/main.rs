//! Facts about the broker as the rdkafka crate sees it: producers, group consumers of both protocols, transactions, admin.
//!
//! Facts run one after another, each on topics of its own; one that fails does not stop the next. Each may wait, none
//! waits longer than `WAIT`.

mod groups;
mod transactions;

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

pub const WAIT: Duration = Duration::from_secs(40);

/// The message of a fact when it does not hold.
pub type Outcome = Result<(), String>;

/// Turns any error into the sentence that the run prints.
pub trait Told<V> {
    fn told(self, what: &str) -> Result<V, String>;
}

impl<V, E: std::fmt::Display> Told<V> for Result<V, E> {
    fn told(self, what: &str) -> Result<V, String> {
        self.map_err(|error| format!("{what}: {error}"))
    }
}

pub fn equal<V: PartialEq + std::fmt::Debug>(got: V, want: V, what: &str) -> Outcome {
    if got == want {
        return Ok(());
    }
    let brief = |value: &V| format!("{value:?}").chars().take(300).collect::<String>();
    Err(format!(
        "{what}: expected {}, got {}",
        brief(&want),
        brief(&got)
    ))
}

pub fn config() -> ClientConfig {
    let mut config = ClientConfig::new();
    let bootstrap = std::env::var("BOOTSTRAP").unwrap_or_else(|_| "127.0.0.1:9092".into());
    config
        .set("bootstrap.servers", bootstrap)
        .set("fetch.wait.max.ms", "50");
    // In a run with logins: who it is.
    let told = |name| std::env::var(format!("ESKER_SASL_{name}")).ok();
    if let (Some(mechanism), Some(user), Some(password)) =
        (told("MECHANISM"), told("USER"), told("PASSWORD"))
    {
        config
            .set("security.protocol", "SASL_PLAINTEXT")
            .set("sasl.mechanisms", mechanism)
            .set("sasl.username", user)
            .set("sasl.password", password);
    }
    config
}

pub fn new_name(prefix: &str) -> String {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    format!("{prefix}-{:x}", now.as_nanos() & 0xffff_ffff_ffff)
}

/// Makes a topic; the answer comes when its leaders are known.
pub fn topic(prefix: &str, partitions: i32) -> Result<String, String> {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    let name = new_name(prefix);
    let factor = std::env::var("FACTOR")
        .map_or(Ok(1), |factor| factor.parse())
        .told("FACTOR")?;
    let admin: AdminClient<_> = config().create().told("admin client")?;
    let new = NewTopic::new(&name, partitions, TopicReplication::Fixed(factor));
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)));
    let made = wait_for_future(admin.create_topics([&new], &options)).told("create topic")?;
    for one in made {
        one.map_err(|(name, code)| format!("create {name}: {code}"))?;
    }
    Ok(name)
}

/// Polls a future until it is done. The admin client answers from its own thread, so a plain waker that unparks is enough.
fn wait_for_future<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}

/// Sends each (partition, value) and waits until the broker has all of them.
pub fn send<'a>(
    producer: &BaseProducer,
    topic: &str,
    records: impl IntoIterator<Item = (i32, &'a str)>,
) -> Outcome {
    for (partition, value) in records {
        let mut record = BaseRecord::<(), str>::to(topic)
            .partition(partition)
            .payload(value);
        while let Err((error, back)) = producer.send(record) {
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(format!("send: {error}"));
            }
            producer.poll(Duration::from_millis(10));
            record = back;
        }
    }
    producer.flush(WAIT).told("flush")
}

pub fn fill(topic: &str, partitions: i32, each: usize) -> Outcome {
    let producer: BaseProducer = config().create().told("producer")?;
    let values: Vec<String> = (0..each).map(|n| n.to_string()).collect();
    send(
        &producer,
        topic,
        (0..partitions).flat_map(|p| values.iter().map(move |v| (p, v.as_str()))),
    )
}

/// A broker went: the client says so and goes on with others.
pub fn is_news(error: &KafkaError) -> bool {
    let news = [
        RDKafkaErrorCode::BrokerTransportFailure,
        RDKafkaErrorCode::AllBrokersDown,
    ];
    let code = error.rdkafka_error_code();
    code.is_some_and(|code| news.contains(&code))
}

/// Everything in partition 0 as a reader of committed data finds it, up to the stable end.
pub fn committed(topic: &str) -> Result<Vec<String>, String> {
    let consumer: BaseConsumer<DefaultConsumerContext> = config()
        .set("group.id", "unused")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .create()
        .told("consumer")?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning)
        .told("list")?;
    consumer.assign(&list).told("assign")?;
    let (mut values, end) = (Vec::new(), Instant::now() + WAIT);
    while Instant::now() < end {
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(message)) => values
                .push(String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned()),
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(values),
            Some(Err(error)) if is_news(&error) => {}
            Some(Err(error)) => return Err(format!("read: {error}")),
            None => {}
        }
    }
    Err(format!("no end after {} values", values.len()))
}

/// Asks again until the answer is `want`: markers follow the commit's own answer.
pub fn soon<V: PartialEq + std::fmt::Debug>(
    want: V,
    what: &str,
    mut ask: impl FnMut() -> Result<V, String>,
) -> Outcome {
    let end = Instant::now() + WAIT;
    loop {
        let got = ask()?;
        if got == want || Instant::now() > end {
            return equal(got, want, what);
        }
        std::thread::yield_now();
    }
}

fn an_idempotent_producer_keeps_order() -> Outcome {
    let name = topic("order", 1)?;
    let producer: BaseProducer = config()
        .set("enable.idempotence", "true")
        .create()
        .told("producer")?;
    let want: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    send(&producer, &name, want.iter().map(|v| (0, v.as_str())))?;
    equal(committed(&name)?, want, "values")
}

fn metadata_and_watermarks_are_right() -> Outcome {
    let name = topic("marks", 3)?;
    fill(&name, 3, 7)?;
    let consumer: BaseConsumer = config().create().told("consumer")?;
    let metadata = consumer
        .fetch_metadata(Some(&name), WAIT)
        .told("metadata")?;
    let partitions: BTreeSet<i32> = metadata.topics()[0]
        .partitions()
        .iter()
        .map(|p| p.id())
        .collect();
    equal(partitions, BTreeSet::from([0, 1, 2]), "partitions")?;
    for partition in 0..3 {
        equal(
            consumer
                .fetch_watermarks(&name, partition, WAIT)
                .told("watermarks")?,
            (0, 7),
            "watermarks",
        )?;
    }
    Ok(())
}

fn main() {
    let (_, version) = rdkafka::util::get_rdkafka_version();
    println!("version {} (librdkafka {version})", env!("RDKAFKA_VERSION"));
    let own: &[(&str, fn() -> Outcome)] = &[
        (
            "an_idempotent_producer_keeps_order",
            an_idempotent_producer_keeps_order,
        ),
        (
            "metadata_and_watermarks_are_right",
            metadata_and_watermarks_are_right,
        ),
    ];
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut failed = 0;
    for (name, fact) in own.iter().chain(groups::FACTS).chain(transactions::FACTS) {
        if !only.is_empty() && !only.split('|').any(|part| name.contains(part)) {
            continue;
        }
        let begin = Instant::now();
        let outcome = fact();
        let seconds = begin.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("pass {name} {seconds:.2}"),
            Err(reason) => {
                failed += 1;
                println!("fail {name} {seconds:.2} {}", reason.replace('\n', " "));
            }
        }
    }
    std::process::exit(i32::from(failed > 0));
}
