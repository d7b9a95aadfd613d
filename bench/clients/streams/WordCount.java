package bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams' word count with exactly_once_v2.
 *
 * <pre>
 *     bench.WordCount fill brokers=HOST:PORT topic=T partitions=2 records=200000
 *     bench.WordCount run  brokers=HOST:PORT topic=T output=U partitions=2 records=200000 state=DIR threads=1 [commit_ms=100] [limit=120]
 * </pre>
 *
 * A record is a line of eight words. `run` counts them, reads the counts as a committed reader does, and ends when they add up
 * to every word that was written: the time from the first record taken in to that moment is measured. Counts that go beyond are
 * an error: a word was counted twice.
 */
public final class WordCount {
    private static final int WORDS_EACH = 8;
    private static final int VOCABULARY = 10_000;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        Arrays.stream(arguments).skip(1).map(a -> a.split("=", 2)).forEach(p -> given.put(p[0], p[1]));
        switch (arguments[0]) {
            case "fill" -> fill(given);
            case "run" -> run(given);
            default -> throw new IllegalArgumentException("fill or run, not " + arguments[0]);
        }
    }

    private static void fill(Map<String, String> given) throws Exception {
        int records = Integer.parseInt(given.get("records"));
        int partitions = Integer.parseInt(given.get("partitions"));
        Random random = new Random(1);
        AtomicReference<Exception> failed = new AtomicReference<>();
        Map<String, Object> settings = Map.of("bootstrap.servers", given.get("brokers"), "linger.ms", 20);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < records; i++) {
                StringBuilder line = new StringBuilder();
                for (int w = 0; w < WORDS_EACH; w++) {
                    // The smaller number of two: some words are frequent, as in a text.
                    int word = Math.min(random.nextInt(VOCABULARY), random.nextInt(VOCABULARY));
                    line.append(w > 0 ? " " : "").append("word").append(word);
                }
                producer.send(new ProducerRecord<>(given.get("topic"), i % partitions, null, line.toString()), (meta, error) -> {
                    if (error != null) {
                        failed.compareAndSet(null, error);
                    }
                });
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        System.out.printf("{\"records\": %d}%n", records);
    }

    private static void run(Map<String, String> given) throws Exception {
        long records = Long.parseLong(given.get("records"));
        long limit = Long.parseLong(given.getOrDefault("limit", "120")) * 1_000_000_000L;
        Path state = Files.createDirectories(Path.of(given.get("state")));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "count-" + given.get("topic"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given.get("brokers"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, given.getOrDefault("threads", "1"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("auto.offset.reset", "earliest");
        if (given.containsKey("commit_ms")) {
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, given.get("commit_ms"));
        }

        AtomicLong began = new AtomicLong();
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(given.get("topic"))
            .peek((key, line) -> began.compareAndSet(0, System.nanoTime()))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream()
            .to(given.get("output"), Produced.with(Serdes.String(), Serdes.Long()));

        AtomicReference<Throwable> failed = new AtomicReference<>();
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.setUncaughtExceptionHandler(error -> {
                failed.compareAndSet(null, error);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            long started = System.nanoTime();
            streams.start();
            long ended = awaitCounts(given, records * WORDS_EACH, started + limit, failed);
            double took = (ended - began.get()) / 1e9;
            System.out.printf(
                "{\"records\": %d, \"seconds\": %.4f, \"records_per_s\": %.1f, \"first_ms\": %.1f}%n",
                records, took, records / took, (began.get() - started) / 1e6);
        }
    }

    /** When the committed counts added up to `words`. */
    private static long awaitCounts(Map<String, String> given, long words, long deadline, AtomicReference<Throwable> failed)
            throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", given.get("brokers"), "isolation.level", "read_committed", "fetch.max.wait.ms", 50);
        List<TopicPartition> places = IntStream.range(0, Integer.parseInt(given.get("partitions")))
            .mapToObj(p -> new TopicPartition(given.get("output"), p)).toList();
        Map<String, Long> counts = new HashMap<>();
        long sum = 0;
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            consumer.assign(places);
            consumer.seekToBeginning(places);
            while (sum < words) {
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(50))) {
                    Long before = counts.put(record.key(), record.value());
                    sum += record.value() - (before == null ? 0 : before);
                }
                if (failed.get() != null) {
                    throw new IllegalStateException("streams ended", failed.get());
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + sum + " of " + words + " words are counted");
                }
            }
        }
        if (sum > words) {
            throw new IllegalStateException(sum + " words are counted, " + words + " were written");
        }
        return System.nanoTime();
    }
}
