package clients;

import static clients.Facts.CONNECTION;
import static clients.Facts.FACTOR;
import static clients.Facts.NODES;
import static clients.Facts.equal;
import static clients.Facts.newName;
import static clients.Facts.that;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What the producer sends is what the assigned consumer reads. */
final class Records implements AutoCloseable {
    private final Administration administration;
    private final Producer<byte[], byte[]> producer = producer(Map.of());

    Records(Administration administration) {
        this.administration = administration;
    }

    void register(Facts facts) {
        facts.add("records_return_with_keys_headers_and_times", this::keysHeadersTimes);
        facts.add("the_default_idempotent_producer_keeps_order_over_six_partitions", this::sixPartitions);
        facts.add("every_codec_returns_the_same_bytes", this::codecs);
        facts.add("acks_0_and_1_store", this::otherAcks);
        facts.add("seek_position_and_both_ends", this::seekAndEnds);
        facts.add("offsets_for_times_are_exact", this::offsetsForTimes);
        facts.add("pause_and_resume_between_two_partitions", this::pauseResume);
        facts.add("read_committed_reads_records_outside_transactions", this::readCommitted);
        facts.add("a_record_over_the_topics_limit_is_refused", this::overLimit);
        facts.add("a_record_larger_than_the_fetch_size_still_comes", this::largeRecord);
        facts.add("an_offset_out_of_range_throws_without_a_reset_policy", this::outOfRange);
        facts.add("an_invalid_and_an_unknown_topic_are_reported", this::badTopics);
        facts.add("partitions_for_names_leader_and_replicas", this::partitionsFor);
    }

    static Producer<byte[], byte[]> producer(Map<String, Object> settings) {
        Properties p = new Properties();
        p.putAll(CONNECTION);
        p.putAll(settings);
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Consumer<byte[], byte[]> consumer(Map<String, Object> settings) {
        Properties p = new Properties();
        p.putAll(CONNECTION);
        p.put("auto.offset.reset", "none");
        p.put("enable.auto.commit", "false");
        p.put("allow.auto.create.topics", "false");
        p.putAll(settings);
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static List<ConsumerRecord<byte[], byte[]>> read(Consumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (records.size() < count) {
            that(System.nanoTime() < end, "only " + records.size() + " of " + count + " records came");
            consumer.poll(Duration.ofMillis(200)).forEach(records::add);
        }
        return records;
    }

    private static List<ConsumerRecord<byte[], byte[]>> readAll(String topic, int count) {
        try (Consumer<byte[], byte[]> consumer = consumer(Map.of())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            return read(consumer, count);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private void fill(String topic, int partition, int count) throws Exception {
        Future<RecordMetadata> last = null;
        for (int i = 0; i < count; i++) {
            last = producer.send(new ProducerRecord<>(topic, partition, 1_000_000L + 10L * i, null, bytes("" + i)));
        }
        producer.flush();
        equal(last.get().offset(), count - 1L, "offset of the last record");
    }

    private void keysHeadersTimes() throws Exception {
        String topic = administration.create("kh", 1, Map.of());
        byte[][][] sent = {{bytes("k"), bytes("v")}, {null, bytes("ü")}, {bytes("k"), null}, {{}, {}}};
        for (int i = 0; i < sent.length; i++) {
            ProducerRecord<byte[], byte[]> r = new ProducerRecord<>(topic, 0, 1_600_000_000_000L + i, sent[i][0], sent[i][1]);
            r.headers().add("a", bytes("1")).add("a", new byte[] {0, -1}).add("none", null);
            RecordMetadata done = producer.send(r).get();
            equal(done.offset(), (long) i, "offset");
            equal(done.timestamp(), 1_600_000_000_000L + i, "timestamp in the answer");
        }
        List<ConsumerRecord<byte[], byte[]>> back = readAll(topic, sent.length);
        for (int i = 0; i < sent.length; i++) {
            equal(back.get(i).key(), sent[i][0], "key");
            equal(back.get(i).value(), sent[i][1], "value");
            equal(back.get(i).timestamp(), 1_600_000_000_000L + i, "timestamp");
            Header[] headers = back.get(i).headers().toArray();
            equal(headers.length, 3, "headers");
            equal(headers[1].key(), "a", "header key");
            equal(headers[1].value(), new byte[] {0, -1}, "header value");
            equal(headers[2].value(), null, "null header");
        }
    }

    private void sixPartitions() throws Exception {
        int count = 60_000;
        String topic = administration.create("six", 6, Map.of());
        for (int i = 0; i < count; i++) {
            producer.send(new ProducerRecord<>(topic, i % 6, null, bytes("" + i)));
        }
        producer.flush();
        try (Consumer<byte[], byte[]> consumer = consumer(Map.of())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int p = 0; p < 6; p++) {
                all.add(new TopicPartition(topic, p));
            }
            consumer.assign(all);
            consumer.seekToBeginning(all);
            int[] next = {0, 1, 2, 3, 4, 5};
            for (ConsumerRecord<byte[], byte[]> r : read(consumer, count)) {
                equal(text(r.value()), "" + next[r.partition()], "value in partition " + r.partition());
                equal(r.offset(), (long) next[r.partition()] / 6, "offset");
                next[r.partition()] += 6;
            }
            consumer.endOffsets(all).forEach((p, end) -> equal(end, count / 6L, "end of " + p));
        }
    }

    private void codecs() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = administration.create("codec-" + codec, 1, Map.of());
            Random random = new Random(codec.hashCode());
            List<byte[]> values = new ArrayList<>();
            try (Producer<byte[], byte[]> p = producer(Map.of("compression.type", codec, "linger.ms", 10))) {
                for (int i = 0; i < 3_000; i++) {
                    byte[] value = new byte[random.nextInt(400)];
                    random.nextBytes(value);
                    Arrays.fill(value, 0, value.length / 2, (byte) i);
                    values.add(value);
                    p.send(new ProducerRecord<>(topic, 0, bytes("" + i), value));
                }
            }
            List<ConsumerRecord<byte[], byte[]>> back = readAll(topic, values.size());
            for (int i = 0; i < values.size(); i++) {
                equal(back.get(i).value(), values.get(i), codec + ": record " + i);
            }
        }
    }

    private void otherAcks() throws Exception {
        for (String acks : List.of("0", "1")) {
            String topic = administration.create("acks", 1, Map.of());
            try (Producer<byte[], byte[]> p = producer(Map.of("acks", acks, "enable.idempotence", false))) {
                for (int i = 0; i < 500; i++) {
                    p.send(new ProducerRecord<>(topic, 0, null, bytes("" + i)));
                }
            }
            List<ConsumerRecord<byte[], byte[]>> back = readAll(topic, 500);
            for (int i = 0; i < 500; i++) {
                equal(text(back.get(i).value()), "" + i, "acks=" + acks);
            }
        }
    }

    private void seekAndEnds() throws Exception {
        String topic = administration.create("seek", 1, Map.of());
        fill(topic, 0, 1_000);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Consumer<byte[], byte[]> c = consumer(Map.of("max.poll.records", 10))) {
            c.assign(List.of(partition));
            equal(c.beginningOffsets(List.of(partition)), Map.of(partition, 0L), "beginning");
            equal(c.endOffsets(List.of(partition)), Map.of(partition, 1_000L), "end");
            for (long offset : new long[] {0, 777, 1, 999, 500}) {
                c.seek(partition, offset);
                equal(text(read(c, 1).get(0).value()), "" + offset, "after seek");
            }
            c.seekToEnd(List.of(partition));
            equal(c.position(partition), 1_000L, "position at the end");
            that(c.poll(Duration.ofMillis(100)).isEmpty(), "records after the end");
            c.seekToBeginning(List.of(partition));
            equal(read(c, 10).get(0).offset(), 0L, "at the beginning");
            equal(c.position(partition), 10L, "position after ten");
        }
    }

    private void offsetsForTimes() throws Exception {
        String topic = administration.create("times", 2, Map.of());
        fill(topic, 0, 300);
        TopicPartition full = new TopicPartition(topic, 0);
        TopicPartition empty = new TopicPartition(topic, 1);
        try (Consumer<byte[], byte[]> c = consumer(Map.of())) {
            for (long[] pair : new long[][] {{0, 0}, {1_000_000, 0}, {1_000_001, 1}, {1_001_234, 124}, {1_002_990, 299}}) {
                Map<TopicPartition, OffsetAndTimestamp> found = c.offsetsForTimes(Map.of(full, pair[0], empty, pair[0]));
                equal(found.get(full).offset(), pair[1], "first at " + pair[0]);
                equal(found.get(full).timestamp(), 1_000_000 + 10 * pair[1], "its time");
                equal(found.get(empty), null, "in an empty partition");
            }
            equal(c.offsetsForTimes(Map.of(full, 1_002_991L)).get(full), null, "after the last");
        }
    }

    private void pauseResume() throws Exception {
        String topic = administration.create("pause", 2, Map.of());
        fill(topic, 0, 100);
        fill(topic, 1, 100);
        TopicPartition one = new TopicPartition(topic, 0);
        TopicPartition two = new TopicPartition(topic, 1);
        try (Consumer<byte[], byte[]> c = consumer(Map.of())) {
            c.assign(List.of(one, two));
            c.seekToBeginning(List.of(one, two));
            c.pause(List.of(one));
            read(c, 100).forEach(r -> equal(r.partition(), 1, "partition while the other is paused"));
            c.resume(List.of(one));
            c.pause(List.of(two));
            read(c, 100).forEach(r -> equal(r.partition(), 0, "partition after the change"));
        }
    }

    private void readCommitted() throws Exception {
        String topic = administration.create("committed", 1, Map.of());
        fill(topic, 0, 100);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Consumer<byte[], byte[]> c = consumer(Map.of("isolation.level", "read_committed"))) {
            c.assign(List.of(partition));
            c.seek(partition, 0);
            equal(read(c, 100).size(), 100, "records");
            equal(c.endOffsets(List.of(partition)), Map.of(partition, 100L), "last stable offset");
            equal(c.currentLag(partition).getAsLong(), 0L, "lag");
        }
    }

    private void overLimit() throws Exception {
        String topic = administration.create("limit", 1, Map.of("max.message.bytes", "10000"));
        try {
            producer.send(new ProducerRecord<>(topic, new byte[20_000])).get();
            throw new AssertionError("20000 bytes were stored");
        } catch (ExecutionException error) {
            equal(error.getCause().getClass(), RecordTooLargeException.class, "error");
        }
        equal(producer.send(new ProducerRecord<>(topic, new byte[5_000])).get().offset(), 0L, "the next one");
    }

    private void largeRecord() throws Exception {
        String topic = administration.create("large", 1, Map.of());
        byte[] value = new byte[900_000];
        new Random(1).nextBytes(value);
        for (byte[] v : List.of(bytes("small"), value, bytes("small"))) {
            producer.send(new ProducerRecord<>(topic, v)).get();
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Consumer<byte[], byte[]> c = consumer(Map.of("max.partition.fetch.bytes", 1_000, "fetch.max.bytes", 2_000))) {
            c.assign(List.of(partition));
            c.seek(partition, 0);
            equal(read(c, 3).get(1).value(), value, "the large one");
        }
    }

    private void outOfRange() throws Exception {
        String topic = administration.create("range", 1, Map.of());
        fill(topic, 0, 10);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Consumer<byte[], byte[]> c = consumer(Map.of())) {
            c.assign(List.of(partition));
            c.seek(partition, 11);
            try {
                read(c, 1);
                throw new AssertionError("a record past the end");
            } catch (OffsetOutOfRangeException error) {
                equal(error.offsetOutOfRangePartitions(), Map.of(partition, 11L), "partitions");
            }
        }
    }

    private void badTopics() throws Exception {
        try (Producer<byte[], byte[]> p = producer(Map.of("max.block.ms", 3_000))) {
            Map<String, Class<?>> expected = new HashMap<>();
            expected.put("bad/name", InvalidTopicException.class);
            expected.forEach((name, kind) -> {
                try {
                    p.send(new ProducerRecord<>(name, bytes("x"))).get();
                    throw new AssertionError(name + " took a record");
                } catch (ExecutionException | InterruptedException error) {
                    equal(error.getCause().getClass(), kind, name);
                }
            });
        }
        try (Consumer<byte[], byte[]> c = consumer(Map.of("default.api.timeout.ms", 2_000))) {
            TopicPartition missing = new TopicPartition(newName("nosuch"), 0);
            c.assign(List.of(missing));
            try {
                c.endOffsets(List.of(missing));
                throw new AssertionError("an unknown topic has an end");
            } catch (TimeoutException error) {
                that(!administration.names().contains(missing.topic()), "asking for its end made the topic");
            }
        }
    }

    private void partitionsFor() throws Exception {
        String topic = administration.create("for", 3, Map.of());
        try (Consumer<byte[], byte[]> c = consumer(Map.of())) {
            equal(c.partitionsFor(topic).size(), 3, "partitions");
            c.partitionsFor(topic).forEach(p -> {
                that(NODES.contains(p.leader().host() + ":" + p.leader().port()), "leader: " + p.leader());
                equal(p.replicas().length, (int) FACTOR, "replicas");
                // All but one that may be down.
                int inSync = p.inSyncReplicas().length;
                that(Math.max(1, FACTOR - 1) <= inSync && inSync <= FACTOR, "in sync: " + inSync);
            });
            that(c.listTopics().containsKey(topic), "the topic is not listed");
        }
    }

    @Override
    public void close() {
        producer.close();
    }
}
