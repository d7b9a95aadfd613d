package clients;

import static clients.Facts.newName;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** What is read, what is written and how far it was read are one transaction: each record arrives once, although movers leave. */
final class Moves {
    private static final int PARTITIONS = 4;
    private static final int RECORDS = 2_000;

    private final Administration administration;

    Moves(Administration administration) {
        this.administration = administration;
    }

    void register(Facts facts) {
        facts.add("movers_of_a_group_move_every_record_once", () -> moveOnce(Map.of("session.timeout.ms", "6000", "heartbeat.interval.ms", "500")));
        facts.add("movers_of_the_consumer_protocol_move_every_record_once", () -> moveOnce(Map.of("group.protocol", "consumer")));
    }

    /** Moves records until it is closed. */
    private static final class Mover extends Thread implements AutoCloseable {
        private final String source;
        private final String sink;
        private final String id = newName("mover");
        private final Map<String, Object> settings;
        private volatile boolean stops;
        private Producer<byte[], byte[]> producer;

        Mover(String group, String source, String sink, Map<String, Object> protocol) {
            this.source = source;
            this.sink = sink;
            settings = new HashMap<>(protocol);
            settings.putAll(Map.of("group.id", group, "auto.offset.reset", "earliest", "isolation.level", "read_committed",
                    "max.poll.records", 50));
            start();
        }

        @Override
        public void run() {
            try (Consumer<byte[], byte[]> consumer = Records.consumer(settings)) {
                consumer.subscribe(List.of(source));
                while (!stops) {
                    try {
                        if (producer == null) {
                            begin(consumer);
                        }
                        move(consumer.poll(Duration.ofMillis(100)), consumer);
                    } catch (KafkaException error) {
                        giveUp();
                    }
                }
            } finally {
                giveUp();
            }
        }

        /** A new producer of the id ends what the one before left open; what did not count is read again. */
        private void begin(Consumer<byte[], byte[]> consumer) {
            producer = Records.producer(Map.of("transactional.id", id, "transaction.timeout.ms", 10_000));
            producer.initTransactions();
            Set<TopicPartition> owned = consumer.assignment();
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(owned);
            for (TopicPartition partition : owned) {
                OffsetAndMetadata at = committed.get(partition);
                consumer.seek(partition, at == null ? 0 : at.offset());
            }
        }

        private void move(ConsumerRecords<byte[], byte[]> records, Consumer<byte[], byte[]> consumer) {
            if (records.isEmpty()) {
                return;
            }
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(sink, record.value()));
            }
            producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
            producer.commitTransaction();
        }

        private void giveUp() {
            if (producer != null) {
                producer.close(Duration.ZERO);
                producer = null;
            }
        }

        void leave() throws InterruptedException {
            close();
            join();
        }

        @Override
        public void close() {
            stops = true;
        }
    }

    private void moveOnce(Map<String, Object> protocol) throws Exception {
        String source = administration.create("source", PARTITIONS, Map.of());
        String sink = administration.create("sink", 1, Map.of());
        try (Producer<byte[], byte[]> producer = Records.producer(Map.of("max.in.flight.requests.per.connection", 1))) {
            for (int i = 0; i < RECORDS; i++) {
                producer.send(new ProducerRecord<>(source, i % PARTITIONS, null, ("" + i).getBytes(StandardCharsets.UTF_8)));
            }
        }
        String group = newName("group");
        try (Mover one = new Mover(group, source, sink, protocol); Mover two = new Mover(group, source, sink, protocol)) {
            Facts.waitFor("half of the records", () -> Transactions.committed(sink, 0).size() >= RECORDS / 2);
            one.leave(); // its share moves to the other in the middle of the work
            Facts.waitFor("every record", () -> Transactions.committed(sink, 0).size() >= RECORDS);
            two.leave();
        }
        List<String> found = Transactions.committed(sink, 0);
        Set<String> wanted = IntStream.range(0, RECORDS).mapToObj(i -> "" + i).collect(Collectors.toCollection(TreeSet::new));
        Facts.equal(new TreeSet<>(found), wanted, "different records");
        Facts.equal(found.size(), RECORDS, "records");
    }
}
