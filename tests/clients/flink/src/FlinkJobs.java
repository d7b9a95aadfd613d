package clients;

import static clients.Facts.BOOTSTRAP;
import static clients.Facts.CONNECTION;
import static clients.Facts.equal;
import static clients.Facts.get;
import static clients.Facts.newName;
import static clients.Facts.that;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Exactly once through a failure, and windows of event time. */
final class FlinkJobs {
    private static final long WAIT_SECONDS = 90;
    private static final int PARTITIONS = 3;
    private static final int HALF = 3_000;

    /** Records left until the planned failure; below zero there is none. Static: the job runs in this process. */
    private static final AtomicInteger UNTIL_FAILURE = new AtomicInteger(-1);

    void register(Facts facts) {
        facts.add("a_job_that_fails_and_restarts_writes_every_record_exactly_once", this::exactlyOnce);
        facts.add("windows_of_event_time_count_what_belongs_to_them", this::windows);
    }

    private static String create(String prefix, int partitions) throws Exception {
        String name = newName(prefix);
        try (Admin admin = Admin.create(CONNECTION)) {
            get(admin.createTopics(List.of(new NewTopic(name, partitions, Facts.FACTOR))).all());
        }
        return name;
    }

    private static void fill(String topic, int from, int to, long time) {
        try (Producer<String, String> producer = new KafkaProducer<>(CONNECTION,
                new StringSerializer(), new StringSerializer())) {
            for (int i = from; i < to; i++) {
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, time + i * 10L, null, "" + i));
            }
        }
    }

    /** Partition 0 of a topic as a reader of committed data finds it, once `enough` holds. */
    private static List<String> read(String topic, String what, Predicate<List<String>> enough) {
        List<String> values = new ArrayList<>();
        TopicPartition place = new TopicPartition(topic, 0);
        try (Consumer<String, String> consumer = new KafkaConsumer<>(
                Facts.connectionWith("isolation.level", "read_committed", "fetch.max.wait.ms", 100),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
            while (!enough.test(values)) {
                that(System.nanoTime() < end, what + ": not within " + WAIT_SECONDS + " s; " + values.size() + " came");
                consumer.poll(Duration.ofMillis(100)).forEach(r -> values.add(r.value()));
            }
            long last = consumer.endOffsets(List.of(place)).get(place);
            while (consumer.position(place) < last) {
                that(System.nanoTime() < end, what + ": the end was not reached");
                consumer.poll(Duration.ofMillis(100)).forEach(r -> values.add(r.value()));
            }
        }
        return values;
    }

    private static StreamExecutionEnvironment environment() {
        Configuration settings = new Configuration();
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 3);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(100));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        environment.enableCheckpointing(300);
        return environment;
    }

    private static Properties connection() {
        Properties connection = new Properties();
        connection.putAll(CONNECTION);
        return connection;
    }

    private static KafkaSourceBuilder<String> source(String topic, String group) {
        return KafkaSource.<String>builder()
                .setProperties(connection())
                .setTopics(topic)
                .setGroupId(group)
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema());
    }

    private static KafkaSink<String> sink(String topic) {
        return KafkaSink.<String>builder()
                .setBootstrapServers(BOOTSTRAP)
                .setKafkaProducerConfig(connection())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(topic)
                .setProperty("transaction.timeout.ms", "60000")
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                        .setTopic(topic)
                        .setValueSerializationSchema(new SimpleStringSchema(StandardCharsets.UTF_8))
                        .build())
                .build();
    }

    private void exactlyOnce() throws Exception {
        String in = create("in", PARTITIONS);
        String out = create("out", 1);
        String group = newName("flink");
        fill(in, 0, HALF, System.currentTimeMillis());
        StreamExecutionEnvironment environment = environment();
        environment.fromSource(source(in, group).build(), WatermarkStrategy.noWatermarks(), "source")
                .map(value -> {
                    if (UNTIL_FAILURE.getAndUpdate(left -> left < 0 ? left : left - 1) == 0) {
                        throw new IllegalStateException("planned failure");
                    }
                    return value;
                })
                .sinkTo(sink(out));
        JobClient job = environment.executeAsync("exactly once");
        read(out, "the first half", found -> found.size() >= HALF);
        UNTIL_FAILURE.set(HALF / 3);
        fill(in, HALF, 2 * HALF, System.currentTimeMillis());
        List<String> found = read(out, "every record", values -> values.size() >= 2 * HALF);
        equal(UNTIL_FAILURE.get(), -1, "the planned failure");
        Map<String, Integer> copies = new TreeMap<>();
        found.forEach(value -> copies.merge(value, 1, Integer::sum));
        equal(copies.size(), 2 * HALF, "different records");
        equal(found.size(), 2 * HALF, "records");
        try (Admin admin = Admin.create(CONNECTION)) {
            Facts.waitFor("the group's offsets", () -> get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
                    .values().stream().mapToLong(o -> o.offset()).sum() == 2 * HALF);
        }
        job.cancel().get(WAIT_SECONDS, TimeUnit.SECONDS);
    }

    private void windows() throws Exception {
        String in = create("events", PARTITIONS);
        String out = create("counts", 1);
        long base = System.currentTimeMillis() / 1_000 * 1_000 - 600_000;
        fill(in, 0, HALF, base); // a record each 10 ms: a hundred in each second
        StreamExecutionEnvironment environment = environment();
        environment.fromSource(source(in, newName("flink")).setBounded(OffsetsInitializer.latest()).build(),
                        WatermarkStrategy.forBoundedOutOfOrderness(Duration.ofSeconds(5)), "source")
                .map(value -> Tuple2.of("key" + Integer.parseInt(value) % 4, 1)).returns(Types.TUPLE(Types.STRING, Types.INT))
                .keyBy(pair -> pair.f0)
                .window(TumblingEventTimeWindows.of(Duration.ofSeconds(1)))
                .sum(1)
                .map(pair -> pair.f0 + "=" + pair.f1)
                .sinkTo(sink(out));
        environment.execute("windows");
        int windows = HALF / 100 * 4;
        Map<String, Integer> got = new TreeMap<>();
        read(out, "the windows", found -> found.size() >= windows).forEach(value -> got.merge(value, 1, Integer::sum));
        Map<String, Integer> want = new TreeMap<>();
        for (int key = 0; key < 4; key++) {
            want.put("key" + key + "=25", HALF / 100);
        }
        equal(got, want, "counts of the windows");
    }
}
