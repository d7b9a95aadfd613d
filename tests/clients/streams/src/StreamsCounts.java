package clients;

import static clients.Facts.equal;
import static clients.Facts.get;
import static clients.Facts.newName;
import static clients.Facts.that;

import clients.StreamsTopics.Line;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/** Counts: of words, through a repartition topic and a changelog; and of records in windows of time. */
final class StreamsCounts {
    private static final List<String> TEXT = List.of("the log is the truth", "a table is a log at rest", "the rest is commentary",
            "a log a table a log");

    private final StreamsTopics topics;

    StreamsCounts(StreamsTopics topics) {
        this.topics = topics;
    }

    void register(Facts facts) {
        facts.add("words_are_counted_and_a_lost_state_is_restored_from_its_changelog", this::words);
        facts.add("records_are_counted_in_windows_of_their_own_time", this::windows);
    }

    private static Topology counting(String in, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(in)
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count(Materialized.as("counts"))
                .toStream()
                .to(out, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    private static List<Line> lines(int rounds) {
        List<Line> lines = new ArrayList<>();
        for (int i = 0; i < rounds * TEXT.size(); i++) {
            lines.add(new Line(i % 3, System.currentTimeMillis(), null, TEXT.get(i % TEXT.size())));
        }
        return lines;
    }

    private static Map<String, Long> expected(int rounds) {
        Map<String, Long> counts = new HashMap<>();
        TEXT.forEach(line -> Arrays.stream(line.split(" ")).forEach(word -> counts.merge(word, (long) rounds, Long::sum)));
        return counts;
    }

    private void words() throws Exception {
        String in = topics.create("lines", 3);
        String out = topics.create("counts", 2);
        String application = newName("words");
        topics.write(in, lines(50));
        KafkaStreams first = StreamsTopics.start(counting(in, out), StreamsTopics.settings(application, newName("one")));
        topics.read(out, new LongDeserializer(), "the first counts", found -> StreamsTopics.table(found).equals(expected(50)));
        StreamsTopics.stop(first);
        topics.write(in, lines(10));
        // Another state directory: the counts so far can only come from the changelog.
        KafkaStreams second = StreamsTopics.start(counting(in, out), StreamsTopics.settings(application, newName("two")));
        topics.read(out, new LongDeserializer(), "the counts after a restart", found -> StreamsTopics.table(found).equals(expected(60)));
        StreamsTopics.stop(second);
        Set<String> names = get(topics.admin.listTopics().names());
        String changelog = application + "-counts-changelog";
        that(names.contains(changelog) && names.contains(application + "-counts-repartition"), "the internal topics are not there");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, changelog);
        Config config = get(topics.admin.describeConfigs(List.of(resource)).all()).get(resource);
        equal(config.get("cleanup.policy").value(), "compact", "policy of the changelog");
    }

    private void windows() throws Exception {
        String in = topics.create("clicks", 2);
        String out = topics.create("windows", 2);
        Duration size = Duration.ofSeconds(10);
        long base = System.currentTimeMillis() / 10_000 * 10_000 - 60_000;
        List<Line> lines = new ArrayList<>();
        Map<String, Long> want = new HashMap<>();
        for (int i = 0; i < 300; i++) {
            String key = "user" + i % 3;
            long time = base + i * 100L; // thirty seconds: three windows
            lines.add(new Line(i % 3 % 2, time, key, "click"));
            want.merge(key + "@" + (time - time % 10_000), 1L, Long::sum);
        }
        topics.write(in, lines);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(in)
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(size, Duration.ofHours(1)))
                .count()
                .toStream()
                .map((window, count) -> KeyValue.pair(window.key() + "@" + window.window().start(), count))
                .to(out, Produced.with(Serdes.String(), Serdes.Long()));
        Properties settings = StreamsTopics.settings(newName("windows"), newName("one"));
        KafkaStreams streams = StreamsTopics.start(builder.build(), settings);
        topics.read(out, new LongDeserializer(), "the windows", found -> StreamsTopics.table(found).equals(want));
        StreamsTopics.stop(streams);
    }
}
