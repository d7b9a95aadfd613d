package clients;

import static clients.Facts.equal;
import static clients.Facts.get;
import static clients.Facts.newName;
import static clients.Facts.that;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;

/** A transaction is seen whole or not at all, and its producer is the only one. */
final class Transactions implements AutoCloseable {
    private final Admin admin = Admin.create(Facts.CONNECTION);

    void register(Facts facts) {
        facts.add("committed_transactions_are_read_and_aborted_ones_are_not", this::committedAndAborted);
        facts.add("a_committed_reader_waits_for_an_open_transaction", this::openTransaction);
        facts.add("a_hundred_transactions_over_three_partitions", this::many);
        facts.add("a_second_producer_of_the_id_fences_the_first", this::fencing);
        facts.add("a_transaction_past_its_time_is_aborted", this::timeout);
        facts.add("offsets_of_a_group_count_when_the_transaction_commits", this::offsets);
        facts.add("transactions_are_listed_and_described", this::described);
        facts.add("a_transactional_id_that_is_not_there_is_not_described", this::missing);
        facts.add("the_admin_fences_a_producer_and_its_transaction_ends", this::fenceProducers);
        facts.add("a_hanging_transaction_is_aborted_by_the_admin", this::abortTransaction);
    }

    private static Producer<byte[], byte[]> producer(String id) {
        return Records.producer(Map.of("transactional.id", id, "transaction.timeout.ms", 60_000));
    }

    private String topic(int partitions) throws Exception {
        String name = newName("txn");
        Facts.made(admin.createTopics(List.of(new NewTopic(name, partitions, Facts.FACTOR))).all());
        return name;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, String text) {
        return new ProducerRecord<>(topic, partition, null, text.getBytes(StandardCharsets.UTF_8));
    }

    private long end(String topic, IsolationLevel level) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        return get(admin.listOffsets(Map.of(partition, OffsetSpec.latest()), new ListOffsetsOptions(level))
            .partitionResult(partition)).offset();
    }

    /** Everything a reader of committed data sees of partition 0. */
    static List<String> committed(String topic, int partition) throws Exception {
        List<String> texts = new ArrayList<>();
        TopicPartition place = new TopicPartition(topic, partition);
        try (Consumer<byte[], byte[]> consumer = Records.consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(List.of(place));
            consumer.seek(place, 0);
            long end = consumer.endOffsets(List.of(place)).get(place);
            while (consumer.position(place) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(java.time.Duration.ofMillis(100))) {
                    texts.add(new String(record.value(), StandardCharsets.UTF_8));
                }
            }
        }
        return texts;
    }

    private void committedAndAborted() throws Exception {
        String topic = topic(1);
        try (Producer<byte[], byte[]> producer = producer(newName("id"))) {
            producer.initTransactions();
            List<String> want = new ArrayList<>();
            for (int round = 0; round < 10; round++) {
                producer.beginTransaction();
                for (int i = 0; i < 5; i++) {
                    producer.send(record(topic, 0, round + "." + i));
                    if (round % 2 == 0) {
                        want.add(round + "." + i);
                    }
                }
                producer.flush();
                if (round % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            Facts.waitFor("markers", () -> end(topic, IsolationLevel.READ_COMMITTED) == 60);
            equal(committed(topic, 0), want, "what is read");
        }
    }

    private void openTransaction() throws Exception {
        String topic = topic(1);
        try (Producer<byte[], byte[]> producer = producer(newName("id"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(topic, 0, "a")).get();
            equal(end(topic, IsolationLevel.READ_UNCOMMITTED), 1L, "the end for all");
            equal(end(topic, IsolationLevel.READ_COMMITTED), 0L, "the last stable offset");
            equal(committed(topic, 0), List.of(), "nothing is stable");
            producer.commitTransaction();
            Facts.waitFor("the marker", () -> end(topic, IsolationLevel.READ_COMMITTED) == 2);
            equal(committed(topic, 0), List.of("a"), "now it is");
        }
    }

    private void many() throws Exception {
        String topic = topic(3);
        try (Producer<byte[], byte[]> producer = producer(newName("id"))) {
            producer.initTransactions();
            for (int round = 0; round < 100; round++) {
                producer.beginTransaction();
                for (int i = 0; i < 3; i++) {
                    producer.send(record(topic, i, "" + round));
                }
                // The client at times ends a transaction before it has sent that one's records: INVALID_TXN_STATE, also of Kafka.
                producer.flush();
                producer.commitTransaction();
            }
        }
        for (int partition = 0; partition < 3; partition++) {
            int at = partition;
            Facts.waitFor("all of partition " + at, () -> committed(topic, at).size() == 100);
        }
    }

    private void fencing() throws Exception {
        String topic = topic(1);
        String id = newName("id");
        try (Producer<byte[], byte[]> old = producer(id); Producer<byte[], byte[]> next = producer(id)) {
            old.initTransactions();
            old.beginTransaction();
            old.send(record(topic, 0, "lost")).get();
            next.initTransactions();
            try {
                old.send(record(topic, 0, "late")).get();
                old.commitTransaction();
                throw new AssertionError("the old producer committed");
            } catch (ProducerFencedException | InvalidProducerEpochException error) {
                // As it should be.
            } catch (ExecutionException error) {
                Throwable cause = error.getCause();
                that(cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException, "" + cause);
            }
            next.beginTransaction();
            next.send(record(topic, 0, "kept"));
            next.flush();
            next.commitTransaction();
            Facts.waitFor("the second", () -> committed(topic, 0).equals(List.of("kept")));
        }
    }

    private void timeout() throws Exception {
        String topic = topic(1);
        Map<String, Object> settings = Map.of("transactional.id", newName("id"), "transaction.timeout.ms", 1000);
        try (Producer<byte[], byte[]> producer = Records.producer(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(topic, 0, "late")).get();
            Facts.waitFor("its abort", () -> end(topic, IsolationLevel.READ_COMMITTED) == 2);
            equal(committed(topic, 0), List.of(), "what is read");
        }
    }

    private void offsets() throws Exception {
        String topic = topic(1);
        String group = newName("group");
        TopicPartition place = new TopicPartition(topic, 0);
        String id = newName("id");
        try (Producer<byte[], byte[]> producer = producer(id)) {
            producer.initTransactions();
            for (long offset : new long[] {7, 8}) {
                producer.beginTransaction();
                producer.send(record(topic, 0, "x"));
                producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(offset)), new ConsumerGroupMetadata(group));
                if (offset == 7) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                // Until its markers are written the offsets are neither there nor gone.
                TransactionState ended = offset == 7 ? TransactionState.COMPLETE_COMMIT : TransactionState.COMPLETE_ABORT;
                Facts.waitFor("its end", () -> get(admin.describeTransactions(List.of(id)).description(id)).state() == ended);
                OffsetAndMetadata found = get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(place);
                equal(found == null ? null : found.offset(), 7L, "the offset after the transaction of " + offset);
            }
        }
    }

    private void described() throws Exception {
        String topic = topic(1);
        String id = newName("id");
        try (Producer<byte[], byte[]> producer = producer(id)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(topic, 0, "a")).get();
            TransactionDescription found = get(admin.describeTransactions(List.of(id)).description(id));
            equal(found.state(), TransactionState.ONGOING, "state");
            equal(found.topicPartitions(), java.util.Set.of(new TopicPartition(topic, 0)), "partitions");
            equal(found.transactionTimeoutMs(), 60_000L, "timeout");
            that(get(admin.listTransactions().all()).stream().anyMatch(one -> one.transactionalId().equals(id)), "listed");
            equal(listed(".*" + id.substring(1)), List.of(id), "listed by pattern");
            equal(listed(id.substring(1)), List.of(), "a pattern stands for the whole id");
            var wrong = new ListTransactionsOptions().filterOnTransactionalIdPattern("(");
            Facts.fails(admin.listTransactions(wrong).all(), InvalidRegularExpression.class, "half a pattern");
            TopicPartition place = new TopicPartition(topic, 0);
            var producers = get(admin.describeProducers(List.of(place)).partitionResult(place)).activeProducers();
            equal(producers.get(0).currentTransactionStartOffset().getAsLong(), 0L, "where it began");
            producer.abortTransaction();
        }
    }

    private List<String> listed(String pattern) throws Exception {
        ListTransactionsOptions options = new ListTransactionsOptions().filterOnTransactionalIdPattern(pattern);
        return get(admin.listTransactions(options).all()).stream().map(TransactionListing::transactionalId).toList();
    }

    private void fenceProducers() throws Exception {
        String topic = topic(1);
        String id = newName("id");
        try (Producer<byte[], byte[]> producer = producer(id)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(topic, 0, "a")).get();
            get(admin.fenceProducers(List.of(id)).all());
            Facts.waitFor("its abort", () -> end(topic, IsolationLevel.READ_COMMITTED) == 2);
        }
    }

    private void abortTransaction() throws Exception {
        String topic = topic(1);
        TopicPartition place = new TopicPartition(topic, 0);
        Hanging.begin(admin, topic, 88_088, (short) 4);
        try (Producer<byte[], byte[]> producer = Records.producer(Map.of())) {
            producer.send(record(topic, 0, "after")).get();
        }
        equal(end(topic, IsolationLevel.READ_COMMITTED), 0L, "where readers of committed data stop");
        var hangs = get(admin.describeProducers(List.of(place)).partitionResult(place)).activeProducers().stream()
            .filter(one -> one.currentTransactionStartOffset().isPresent()).toList();
        equal(hangs.stream().map(one -> one.producerId() + ":" + one.producerEpoch()).toList(), List.of("88088:4"), "what hangs");
        get(admin.abortTransaction(new AbortTransactionSpec(place, 88_088, (short) 4, 0)).all());
        equal(end(topic, IsolationLevel.READ_COMMITTED), 3L, "where they stop afterwards");
        equal(committed(topic, 0), List.of("after"), "what they read");
        var stale = new AbortTransactionSpec(place, 88_088, (short) 3, 0);
        Facts.fails(admin.abortTransaction(stale).all(), InvalidProducerEpochException.class, "an epoch before");
    }

    private void missing() throws Exception {
        String id = newName("nosuch");
        Facts.fails(admin.describeTransactions(List.of(id)).description(id), TransactionalIdNotFoundException.class, "no such id");
        equal(listed(id), List.of(), "listed");
    }

    @Override
    public void close() {
        admin.close();
    }
}
