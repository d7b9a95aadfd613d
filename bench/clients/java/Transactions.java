package bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions of the Java client, and reads of what they left.
 *
 * <pre>
 *     bench.Transactions produce brokers=HOST:PORT topic=T partitions=1 each=100 size=100 seconds=5 warmup=2 [transactions=N]
 *     bench.Transactions read    brokers=HOST:PORT topic=T partitions=1 isolation=read_committed passes=3
 * </pre>
 *
 * Prints one JSON object. A transaction counts when its commit has returned and every send of it was acknowledged; any error
 * ends the run.
 */
public final class Transactions {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        Arrays.stream(arguments).skip(1).map(a -> a.split("=", 2)).forEach(p -> given.put(p[0], p[1]));
        switch (arguments[0]) {
            case "produce" -> produce(given);
            case "read" -> read(given);
            default -> throw new IllegalArgumentException("produce or read, not " + arguments[0]);
        }
    }

    private static int number(Map<String, String> given, String name, int otherwise) {
        return Integer.parseInt(given.getOrDefault(name, String.valueOf(otherwise)));
    }

    /** Commits that were made, and how long each took from its beginning. */
    private static final class Tally {
        final List<Long> nanos = new ArrayList<>();
        long began;
        long ended;
    }

    private static void produce(Map<String, String> given) throws Exception {
        int partitions = number(given, "partitions", 1);
        int each = number(given, "each", 100);
        byte[] value = new byte[number(given, "size", 100)];
        ThreadLocalRandom.current().nextBytes(value);
        String topic = given.get("topic");
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", given.get("brokers"),
            "transactional.id", "bench-" + topic,
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class);
        long most = number(given, "transactions", Integer.MAX_VALUE);
        double seconds = Double.parseDouble(given.getOrDefault("seconds", "1e6"));
        double warmup = Double.parseDouble(given.getOrDefault("warmup", "0"));
        Tally tally = new Tally();
        long all = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            List<Future<RecordMetadata>> sends = new ArrayList<>(each);
            long start = System.nanoTime();
            long measured = start + (long) (warmup * 1e9);
            long end = measured + (long) (seconds * 1e9);
            long now = start;
            tally.began = start;
            while (now < end && all < most) {
                if (tally.nanos.isEmpty() && now >= measured) {
                    tally.began = now;
                }
                long before = now;
                producer.beginTransaction();
                sends.clear();
                for (int i = 0; i < each; i++) {
                    sends.add(producer.send(new ProducerRecord<>(topic, i % partitions, null, value)));
                }
                // Without it the client's sender, in rare cases, ends the transaction before it has sent its records: it looks for
                // records first and for a commit then. Either broker refuses that with INVALID_TXN_STATE.
                producer.flush();
                producer.commitTransaction();
                for (Future<RecordMetadata> send : sends) {
                    send.get();
                }
                all++;
                now = System.nanoTime();
                if (before >= measured) {
                    tally.nanos.add(now - before);
                }
            }
            tally.ended = now;
        }
        if (tally.nanos.isEmpty()) {
            throw new IllegalStateException("no transaction was committed in the measured time");
        }
        double took = (tally.ended - tally.began) / 1e9;
        long[] sorted = tally.nanos.stream().mapToLong(Long::longValue).sorted().toArray();
        System.out.printf(
            "{\"transactions\": %d, \"records\": %d, \"seconds\": %.4f, \"txns_per_s\": %.2f, \"records_per_s\": %.1f, "
                + "\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}%n",
            all, all * each, took, sorted.length / took, sorted.length * (double) each / took,
            at(sorted, 0.5), at(sorted, 0.99), at(sorted, 1.0));
    }

    private static double at(long[] sorted, double share) {
        return sorted[Math.min((int) (share * sorted.length), sorted.length - 1)] / 1e3;
    }

    /** Reads everything several times over, from its first record on; the first pass warms the JVM and does not count. */
    private static void read(Map<String, String> given) {
        String topic = given.get("topic");
        List<TopicPartition> places = new ArrayList<>();
        for (int p = 0; p < number(given, "partitions", 1); p++) {
            places.add(new TopicPartition(topic, p));
        }
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", given.get("brokers"),
            "isolation.level", given.getOrDefault("isolation", "read_uncommitted"),
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
        int passes = number(given, "passes", 3);
        long records = 0;
        long bytes = 0;
        long nanos = 0;
        for (int pass = 0; pass <= passes; pass++) {
            // One of its own for each pass: after a seek the fetch that waits at the old end would have to come back first.
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
                consumer.assign(places);
                consumer.seekToBeginning(places);
                Map<TopicPartition, Long> ends = consumer.endOffsets(places);
                long began = 0;
                long deadline = System.nanoTime() + 60_000_000_000L;
                while (places.stream().anyMatch(place -> consumer.position(place) < ends.get(place))) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        if (began == 0) {
                            began = System.nanoTime();
                        }
                        if (pass > 0) {
                            records++;
                            bytes += record.value().length;
                        }
                    }
                    if (System.nanoTime() > deadline) {
                        throw new IllegalStateException("the end was not reached in a minute");
                    }
                }
                nanos += pass > 0 ? System.nanoTime() - began : 0;
            }
        }
        double took = nanos / 1e9;
        System.out.printf(
            "{\"records\": %d, \"each_pass\": %d, \"seconds\": %.4f, \"records_per_s\": %.1f, \"mib_per_s\": %.3f}%n",
            records, records / passes, took, records / took, bytes / took / (1 << 20));
    }
}
