package clients;

import static clients.Facts.equal;
import static clients.Facts.newName;
import static clients.Facts.that;

import clients.StreamsTopics.Line;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Produced;

/** exactly_once_v2: every record counts once although threads die and instances come and go. */
final class StreamsExactlyOnce {
    private static final int KEYS = 10;
    private static final int EACH = 300;
    private static final int PARTITIONS = 4;

    private final StreamsTopics topics;

    StreamsExactlyOnce(StreamsTopics topics) {
        this.topics = topics;
    }

    void register(Facts facts) {
        facts.add("exactly_once_counts_every_record_once_while_threads_die_and_instances_leave", this::exactlyOnce);
    }

    private static List<Line> lines(int from, int to) {
        List<Line> lines = new ArrayList<>();
        for (int i = from; i < to; i++) {
            for (int key = 0; key < KEYS; key++) {
                lines.add(new Line(key % PARTITIONS, System.currentTimeMillis(), "k" + key, "" + i));
            }
        }
        return lines;
    }

    /** A running count per key; without a cache each record makes one line of output. Some records kill their thread once. */
    private static Topology counting(String in, String out, AtomicInteger faults) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(in)
                .peek((key, value) -> {
                    int faulty = faults.get();
                    if (faulty > 0 && value.equals("" + (EACH / 2 - faulty)) && faults.compareAndSet(faulty, faulty - 1)) {
                        throw new IllegalStateException("planned fault " + faulty);
                    }
                })
                .groupByKey()
                .count()
                .toStream()
                .to(out, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    private static KafkaStreams start(String application, String in, String out, AtomicInteger faults) {
        Properties settings = StreamsTopics.settings(application, newName("instance"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        KafkaStreams streams = new KafkaStreams(counting(in, out, faults), settings);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.start();
        return streams;
    }

    private void exactlyOnce() throws Exception {
        String in = topics.create("eos-in", PARTITIONS);
        String out = topics.create("eos-out", 2);
        String application = newName("eos");
        AtomicInteger faults = new AtomicInteger(3);
        topics.write(in, lines(0, EACH / 2));
        KafkaStreams one = start(application, in, out, faults);
        KafkaStreams two = start(application, in, out, faults);
        topics.read(out, new LongDeserializer(), "the first half", found -> found.size() >= KEYS * EACH / 2);
        equal(faults.get(), 0, "planned faults that did not come");
        topics.write(in, lines(EACH / 2, EACH * 3 / 4));
        StreamsTopics.stop(one);
        topics.write(in, lines(EACH * 3 / 4, EACH));
        KafkaStreams three = start(application, in, out, faults);
        List<ConsumerRecord<String, Long>> found =
                topics.read(out, new LongDeserializer(), "every record", all -> all.size() >= KEYS * EACH);
        StreamsTopics.stop(two);
        StreamsTopics.stop(three);
        Map<String, Long> last = new TreeMap<>();
        for (ConsumerRecord<String, Long> record : found) {
            long before = last.getOrDefault(record.key(), 0L);
            equal(record.value(), before + 1, "count of " + record.key() + " after " + before);
            last.put(record.key(), record.value());
        }
        equal(last.size(), KEYS, "keys");
        that(last.values().stream().allMatch(count -> count == EACH), "counts at the end: " + last);
        Map<TopicPartition, OffsetAndMetadata> offsets =
                Facts.get(topics.admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata());
        long consumed = offsets.entrySet().stream().filter(e -> e.getKey().topic().equals(in)).mapToLong(e -> e.getValue().offset()).sum();
        equal(consumed, (long) KEYS * EACH, "offsets of the group");
    }
}
