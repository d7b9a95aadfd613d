package clients;

import static clients.Facts.CONNECTION;
import static clients.Facts.newName;
import static clients.Facts.that;

import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;

/** Makes the topics of an application, fills them, starts it, and reads what it wrote. */
final class StreamsTopics implements AutoCloseable {
    static final long WAIT_SECONDS = 60 * Facts.PATIENCE;

    final Admin admin = Admin.create(CONNECTION);

    String create(String prefix, int partitions) throws Exception {
        String name = newName(prefix);
        Facts.made(admin.createTopics(List.of(new NewTopic(name, partitions, Facts.FACTOR))).all());
        return name;
    }

    record Line(int partition, long time, String key, String value) {}

    void write(String topic, List<Line> lines) {
        try (Producer<String, String> producer = new KafkaProducer<>(CONNECTION,
                new StringSerializer(), new StringSerializer())) {
            for (Line line : lines) {
                producer.send(new ProducerRecord<>(topic, line.partition, line.time, line.key, line.value));
            }
        }
    }

    /** Reads all partitions of a topic from the start until `enough` holds for what came. */
    <V> List<ConsumerRecord<String, V>> read(String topic, Deserializer<V> values, String what,
            Predicate<List<ConsumerRecord<String, V>>> enough) throws Exception {
        List<ConsumerRecord<String, V>> records = new ArrayList<>();
        Map<String, Object> settings = Facts.connectionWith("isolation.level", "read_committed",
                "fetch.max.wait.ms", 100);
        try (Consumer<String, V> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), values)) {
            List<TopicPartition> all = consumer.partitionsFor(topic).stream()
                    .map(p -> new TopicPartition(topic, p.partition())).toList();
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
            while (!enough.test(records)) {
                that(System.nanoTime() < end, what + ": not within " + WAIT_SECONDS + " s; " + records.size() + " records came");
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
            // What is there already, but should not be, must show.
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            while (all.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                that(System.nanoTime() < end, what + ": the end of the topic was not reached");
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
        }
        return records;
    }

    /** The last value of every key: what a table that was written as a stream says. */
    static <V> Map<String, V> table(List<ConsumerRecord<String, V>> records) {
        Map<String, V> last = new HashMap<>();
        records.forEach(r -> last.put(r.key(), r.value()));
        return last;
    }

    static Properties settings(String application, String instance) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.putAll(CONNECTION);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, new File(System.getenv("TEST_TMP"), "state-" + instance).toString());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.heartbeat.interval.ms", 300);
        settings.put("consumer.session.timeout.ms", 10_000);
        return settings;
    }

    static KafkaStreams start(Topology topology, Properties settings) {
        KafkaStreams streams = new KafkaStreams(topology, settings);
        streams.start();
        return streams;
    }

    static void stop(KafkaStreams streams) {
        that(streams.close(Duration.ofSeconds(WAIT_SECONDS)), "the application did not stop in time");
    }

    @Override
    public void close() {
        admin.close();
    }
}
